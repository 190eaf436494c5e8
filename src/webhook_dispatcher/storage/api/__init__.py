"""What the Partner API asks of the database, under a role that sees little of it: functions, and views of a merchant's own."""
