"""What the Partner API asks of the database: functions, and views of a merchant's own rows."""
