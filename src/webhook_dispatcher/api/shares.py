"""How the connections of this process to a database are shared out, so that no client can hold them all.

Strangers are clients whose credentials were not found right yet. They share a few connections: a flood of
invented tokens, each of which costs a look-up, leaves the others to merchants. Each merchant has a few at a
time, however many keys, tokens and requests it has and however long these take.
"""

from collections import OrderedDict
from collections.abc import Mapping
from weakref import WeakValueDictionary

from webhook_dispatcher.storage.api.connections import Connections
from webhook_dispatcher.storage.api.database import Share
from webhook_dispatcher.storage.api.tokens import Bearer

OF_STRANGERS = 3
"""Connections that all strangers may have together."""
OF_A_MERCHANT = 4
"""Connections that one merchant may have."""
MAX_KNOWN = 20_000
"""Tokens whose merchant is remembered; the one that was used least lately is forgotten first. Its next
request waits for a connection of strangers, and then the token is remembered again."""


class Shares:
    """The shares of the connections to one database: that of strangers, and one for each merchant."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.of_strangers = Share(connections, OF_STRANGERS)
        self._of_merchants: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self._known: OrderedDict[bytes, tuple[str, Share]] = OrderedDict()

    def of_token(self, token_hash: bytes) -> Share:
        """Return the share to look a token up in: its merchant's, if it was live when it was seen last."""
        _, share = self._known.get(token_hash, ("", self.of_strangers))
        return share

    def note(self, token_hash: bytes, bearer: Bearer | None) -> Share:
        """Remember whose token this is, if it is live, and return the share that its request has.

        bearer: whom the token was found to be of; None where it is not live.
        """
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
        """Return the merchant's share: the same one for as long as any of its tokens or requests has it."""
        if (share := self._of_merchants.get(merchant_id)) is None:
            self._of_merchants[merchant_id] = share = Share(self._connections, OF_A_MERCHANT)
        return share


class Databases:
    """The databases by their names; None is the name of a single one without."""

    def __init__(self, connections: Mapping[str | None, Connections]) -> None:
        self._shares = {name: Shares(each) for name, each in connections.items()}

    def named(self, shard: str | None) -> Shares | None:
        """Return the shares of the database that a token or client id names; None where there is no such."""
        return self._shares.get(shard)

    @property
    def first(self) -> Shares:
        """The database in which requests are counted that name none of ours."""
        return next(iter(self._shares.values()))
