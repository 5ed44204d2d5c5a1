"""What samples of GPUs and of nodes say of attempts."""
