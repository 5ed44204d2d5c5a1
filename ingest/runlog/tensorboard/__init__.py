"""TensorBoard's event files: `events.out.tfevents.*`."""
