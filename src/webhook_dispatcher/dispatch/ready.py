"""Merchants that may have work, in the order in which we learned of it. No I/O."""

from collections.abc import Mapping
from itertools import islice

NO_STRAGGLER = 2**62
"""A head that lowers no lane's from_seq."""
MOST_READY = 50_000
"""Merchants remembered; beyond, the sweep finds them again."""


class ReadyLanes:
    """An ordered set of merchants, each with the lowest seq that was seen of it."""

    def __init__(self) -> None:
        self._heads: dict[str, int] = {}

    def add(self, merchant_id: str, head_seq: int = NO_STRAGGLER) -> None:
        """Put a merchant at the end, or lower the head of one that waits already."""
        known = self._heads.get(merchant_id)
        if known is None and len(self._heads) >= MOST_READY:
            return
        if known is None or head_seq < known:
            self._heads[merchant_id] = head_seq

    def take(self, most: int) -> dict[str, int]:
        """Take the merchants that have waited longest."""
        taken = dict(islice(self._heads.items(), most))
        for merchant_id in taken:
            del self._heads[merchant_id]
        return taken

    def give_back(self, heads: Mapping[str, int]) -> None:
        """Put back what was taken in vain."""
        for merchant_id, head_seq in heads.items():
            self.add(merchant_id, head_seq)

    def __len__(self) -> int:
        return len(self._heads)
