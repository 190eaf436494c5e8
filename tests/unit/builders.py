"""Values that unit tests begin with: an event and an endpoint, the instant, the lease and the keys."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, Secret

HOLD = timedelta(days=1)
NOW = datetime(2026, 11, 20, 8, 15, 30, 123456, tzinfo=UTC)
LEASE = timedelta(seconds=30)
INTERVAL = timedelta(hours=1)
KEYRING = Keyring({"k1": b"k" * 32})
SECRET = Secret("whsec_" + "a" * 43)


def make_event(seq: int, merchant_id: str = "m", **changes: Any) -> Event:
    """Make an event as the outbox would show it."""
    facts: dict[str, Any] = {
        "seq": seq,
        "id": UUID(int=seq),
        "merchant_id": merchant_id,
        "type": "charge.created",
        "created_at": NOW,
        "object": b'{"id":"ch_%d"}' % seq,
    }
    return Event(**(facts | changes))


def make_endpoint(merchant_id: str = "m", key_id: str = "k1") -> Endpoint:
    """Make an endpoint whose secret opens with KEYRING, unless another key's id is given."""
    sealed = KEYRING.seal(merchant_id, SECRET)
    return Endpoint(merchant_id, f"https://{merchant_id}.example/", (SealedSecret(key_id, sealed.sealed),))
