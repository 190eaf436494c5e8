"""What the Partner API does in the database, as webhook_api: a statement brings the token that it is for."""
