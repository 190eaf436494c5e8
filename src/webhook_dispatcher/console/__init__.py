"""The console: deliveries, merchants and commands in a browser, rendered on the server."""
