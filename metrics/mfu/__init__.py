"""MFU: FLOP that the model needed over FLOP that the GPUs could have given."""
