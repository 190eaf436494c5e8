"""What the console does in the database, as webhook_console: statements bring the session they are for."""
