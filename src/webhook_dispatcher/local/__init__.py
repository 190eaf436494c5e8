"""What only a laptop needs: an embedded Postgres, a sample receiver and producer."""
