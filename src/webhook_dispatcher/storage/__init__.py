"""Every statement, its parameters and its rows; SQL lives in sql/*.sql."""
