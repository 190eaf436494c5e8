"""How many outcomes are written in one statement, and how many lanes given back.

While the database is slow, more outcomes wait and batches grow; a batch that takes longer than a statement
may is never written, however often it is tried. So a batch that failed is followed by half of it, and only
a full one that was quick by a larger one.
"""

MAX_BATCH = 500
MIN_BATCH = 10
QUICK = 1.0
"""Seconds; a statement may take 1.8 at least, by its time-out (app.daemon)."""


class BatchSize:
    """The limit that holds now."""

    def __init__(self) -> None:
        self.limit = MAX_BATCH

    def failed(self) -> None:
        """Learn that a batch was not written."""
        self.limit = max(MIN_BATCH, self.limit // 2)

    def written(self, size: int, took: float) -> None:
        """Learn how large a batch was, and how many seconds it took to write it."""
        if size >= self.limit and took < QUICK:
            self.limit = min(MAX_BATCH, self.limit * 2)
