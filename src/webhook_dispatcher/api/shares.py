"""How the connections of this process to a database are shared out, so that no client can hold them all.

Each merchant has a few at a time, however many keys, tokens and requests it has and however long these take.
Clients whose credentials were not found right yet have a few more: some to ask for a token, and others to
bring one that is unknown here. So a flood of invented tokens, each of which costs a look-up, leaves merchants
theirs and keeps nobody from a token. Addresses take turns at either.
"""

from collections import OrderedDict
from collections.abc import Mapping
from weakref import WeakValueDictionary

from webhook_dispatcher.storage.api.connections import Connections
from webhook_dispatcher.storage.api.database import Share
from webhook_dispatcher.storage.api.tokens import Bearer
from webhook_dispatcher.web.clients import Address, subjects_of

OF_UNKNOWN_TOKENS = 2
"""Connections to look tokens up that are unknown here."""
OF_ISSUING = 2
"""Connections for those who ask for tokens."""
OF_AN_ADDRESS = 1
"""Connections of either that one address may have; of IPv6 all of a /48, too."""
OF_A_MERCHANT = 4
"""Connections that one merchant may have."""
MAX_KNOWN = 20_000
"""Tokens that are remembered; the one that was used least lately is forgotten first. Its next request takes
turns with unknown tokens, and then the token is remembered again."""


class Turns:
    """A share that addresses have by turns: each waits behind one request of any other, however many it has.

    How many wait is not bounded here, or an attacker's requests would keep all others out: each has a
    connection of its client's, and API_MAX_CONNECTIONS bounds those.
    """

    def __init__(self, connections: Connections, most: int) -> None:
        self._whole = Share(connections, most, bounds_waiting=False)
        self._of_addresses: WeakValueDictionary[str, Share] = WeakValueDictionary()

    def of(self, address: Address) -> Share:
        """Return what an address has of it: the same for as long as any of its requests has it."""
        share = self._whole
        # Of IPv6 the /48 first: all that is within takes turns for that one's turn.
        for subject in reversed(subjects_of(address)):
            within = self._of_addresses.get(subject)
            if within is None:
                self._of_addresses[subject] = within = Share(share, OF_AN_ADDRESS, bounds_waiting=False)
            share = within
        return share


class Shares:
    """The shares of the connections to one database: those of strangers, and one for each merchant."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.issuing = Turns(connections, OF_ISSUING)
        self._unknown_tokens = Turns(connections, OF_UNKNOWN_TOKENS)
        self._of_merchants: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self._known: OrderedDict[bytes, Share] = OrderedDict()

    def of_token(self, token_hash: bytes, address: Address) -> Share:
        """Return the share to look a token up in.

        Its merchant's, if it was live when it was seen last; that in which it was issued, if it was issued
        here and not seen since; otherwise what the address has of that of unknown tokens.
        """
        return self._known.get(token_hash) or self._unknown_tokens.of(address)

    def note_issued(self, token_hash: bytes, share: Share) -> None:
        """Remember a token that was issued in a share: its first request waits behind no invented token."""
        self._remember(token_hash, share)

    def note(self, token_hash: bytes, bearer: Bearer) -> Share:
        """Remember whose live token this is, and return the share that its request has.

        It is the merchant's: the same one for as long as any of its tokens or requests has it.
        """
        share = self._of_merchants.get(bearer.merchant_id)
        if share is None:
            share = self._of_merchants[bearer.merchant_id] = Share(self._connections, OF_A_MERCHANT)
        self._known.pop(token_hash, None)
        self._remember(token_hash, share)
        return share

    def forget(self, token_hash: bytes) -> None:
        """Forget a token that is not live."""
        self._known.pop(token_hash, None)

    def _remember(self, token_hash: bytes, share: Share) -> None:
        self._known[token_hash] = share
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


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
