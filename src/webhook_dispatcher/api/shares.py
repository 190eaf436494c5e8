"""Who shares which of a process's connections to a database, so that nobody can hold them all.

Strangers, whose credentials were not seen to be right yet, share a few: a flood of invented tokens, which
costs a look-up each, leaves the others to merchants. Each merchant has a few at a time, however many keys,
tokens and requests it has and however long these take: the others find connections meanwhile.
"""

from collections import OrderedDict
from collections.abc import Mapping
from weakref import WeakValueDictionary

from webhook_dispatcher.storage.api.connections import Connections
from webhook_dispatcher.storage.api.database import Share
from webhook_dispatcher.storage.api.tokens import Bearer

OF_STRANGERS = 3
OF_A_MERCHANT = 4
MAX_KNOWN = 20_000
"""Tokens that are remembered: who was forgotten is a stranger for one request."""


class Shares:
    """One database's."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.of_strangers = Share(connections, OF_STRANGERS)
        self._of_merchants: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self._known: OrderedDict[bytes, tuple[str, Share]] = OrderedDict()

    def of_token(self, token_hash: bytes) -> Share:
        """Return where a token is looked up: its merchant's, if it was live when it was seen last."""
        _, share = self._known.get(token_hash, ("", self.of_strangers))
        return share

    def note(self, token_hash: bytes, bearer: Bearer | None) -> Share:
        """Remember whose a live token is, and of others nothing; return what its requests share."""
        known = self._known.pop(token_hash, None)
        if bearer is None:
            return self.of_strangers
        if known is None:
            known = (bearer.merchant_id, self._of_merchant(bearer.merchant_id))
        self._known[token_hash] = known
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return known[1]

    def _of_merchant(self, merchant_id: str) -> Share:
        """Return the merchant's: the same one for as long as any of its tokens or requests has it."""
        if (share := self._of_merchants.get(merchant_id)) is None:
            self._of_merchants[merchant_id] = share = Share(self._connections, OF_A_MERCHANT)
        return share


class Databases:
    """The databases by their names; None is the name of a single one without."""

    def __init__(self, connections: Mapping[str | None, Connections]) -> None:
        self._shares = {name: Shares(each) for name, each in connections.items()}

    def named(self, shard: str | None) -> Shares | None:
        """Return the database that a token or client id names; None where there is no such."""
        return self._shares.get(shard)

    @property
    def first(self) -> Shares:
        """Where those are counted who name no database of ours."""
        return next(iter(self._shares.values()))
