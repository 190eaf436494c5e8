"""What the Partner API does in the database, as webhook_api: each statement brings the token it is for."""
