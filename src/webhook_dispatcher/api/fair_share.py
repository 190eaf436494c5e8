"""How something scarce is shared out while it is scarce: nobody may hold more than a part of what is left.

So some is left for who holds nothing yet, although several hold all they can: the dynamic thresholds of
switches (Choudhury and Hahne, 1998).
"""

from collections import Counter


class FairShare:
    """So many units; each client is named by a text.

    alone: how many of them a client may hold while nobody else holds any, at most half. n clients that took
    all they could, one after the other, leave size * (1 - alone / size) ** n.
    """

    def __init__(self, size: int, alone: int) -> None:
        self._left = size
        self._one_in = size // alone - 1
        self._held: Counter[str] = Counter()

    def take(self, client: str, units: int = 1) -> bool:
        """Take units; False, and none is taken, where the client would have more than its part."""
        if self._held[client] + units > self._left // self._one_in:
            return False
        self._left -= units
        self._held[client] += units
        return True

    def release(self, client: str, units: int = 1) -> None:
        """Release what was taken."""
        self._left += units
        self._held[client] -= units
        if not self._held[client]:
            del self._held[client]
