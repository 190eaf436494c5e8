"""What became of a delivery, why, and what comes next: as data, and said in three languages. No I/O."""
