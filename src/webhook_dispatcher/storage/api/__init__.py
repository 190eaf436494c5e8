"""What the Partner API asks of the database.

Its role sees little of it: functions, and views of what is a merchant's own.
"""
