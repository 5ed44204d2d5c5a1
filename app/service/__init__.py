"""The service: the worker that keeps a warehouse current, the exporter, and the web server."""
