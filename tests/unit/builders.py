"""Values that unit tests begin with: an event and an endpoint, the instant, lease, keys and codes."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from webhook_dispatcher.api.charge_service.upstream_answers import KnownCodes
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, Secret

HOLD = timedelta(days=1)
NOW = datetime(2026, 11, 20, 8, 15, 30, 123456, tzinfo=UTC)
LEASE = timedelta(seconds=30)
INTERVAL = timedelta(hours=1)
KEYRING = Keyring({"k1": b"k" * 32})
SECRET = Secret("whsec_" + "a" * 43)

PUBLISHED = KnownCodes(
    statuses={
        -1007: 422,
        **dict.fromkeys((-10001, -10002, -10003, -11004), 401),
        **{-11001: 400, -11002: 422, -11003: 409, -11005: 429},
        **{-2006: 422, -3004: 409, -3006: 422, -3007: 409, -6004: 422, -8004: 422, -8006: 403},
        **{-9002: 422, -9004: 422, -12004: 422},
        **{-14001: 422, -14002: 404, -14003: 404, -14004: 409},
        **{-16001: 404, -16010: 500},
    },
    ranges=[
        range(last, first + 1)
        for first, last in (
            *((-1001, -1009), (-2001, -2009), (-3001, -3007), (-4001, -4004), (-5001, -5006), (-6001, -6007)),
            *((-7001, -7002), (-8001, -8008), (-9001, -9009), (-10001, -10003), (-11001, -11005)),
            *((-12001, -12004), (-14001, -14005)),
        )
    ],
    validation=range(-1009, -1000),
)
"""What merchants were told of errors, and two of our own codes, outside all ranges."""


def make_event(seq: int, lane: str = "m", **changes: Any) -> Event:
    """Make an event as the outbox would show it."""
    facts: dict[str, Any] = {
        "seq": seq,
        "id": UUID(int=seq),
        "lane": lane,
        "type": "charge.created",
        "created_at": NOW,
        "object": b'{"id":"ch_%d"}' % seq,
    }
    return Event(**(facts | changes))


def make_endpoint(merchant_id: str = "m", key_id: str = "k1") -> Endpoint:
    """Make an endpoint whose secret opens with KEYRING, unless another key's id is given."""
    sealed = KEYRING.seal(merchant_id, SECRET)
    return Endpoint(merchant_id, f"https://{merchant_id}.example/", (SealedSecret(key_id, sealed.sealed),))
