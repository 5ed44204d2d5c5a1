"""What wraps the lines of a log: terminals, container runtimes, collectors and exports."""
