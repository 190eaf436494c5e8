"""What the charge service carries out: which operations those are, asking it, and reading what it answers."""
