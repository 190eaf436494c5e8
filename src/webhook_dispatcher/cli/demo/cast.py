"""Who plays: six merchants, and a schedule of seconds that lets retries and failure be watched."""

from dataclasses import dataclass
from datetime import timedelta

from webhook_dispatcher.local.behaviour import Behaviour

RETRY_SCHEDULE = "PT1S,PT1S,PT1S,PT2S,PT2S,PT3S,PT3S"
ATTEMPTS = 8
ATTEMPT_TIMEOUT = "PT1S"
LEASE = "PT6S"
LANE_RETRIES = "4"
RATE = 25.0
"""Events a second, all merchants together, where so many are to be written."""
RATE_TO_WATCH = 6.0
"""Events a second that let each request be read."""
WRITERS = 3


@dataclass(frozen=True, slots=True)
class Merchant:
    """One merchant of the demo.

    share: of the events, relative to the others'.
    recovers: whether its events all get through by the schedule alone.
    """

    id: str
    character: str
    share: int
    behaviours: tuple[Behaviour, ...]
    recovers: bool = True


HEALTHY = Merchant("bakery", "answers 200", 22, (Behaviour(200),))
PAUSED = Merchant("bookshop", "answers 204", 22, (Behaviour(204),))
SLOW = Merchant("café", "takes 150 ms", 18, (Behaviour(200, delay=timedelta(milliseconds=150)),))
FLAKY = Merchant(
    "kiosk",
    "503, 502, 200",
    18,
    # Not a disconnection: on a kept connection that one is sent again within the same attempt.
    (Behaviour(503), Behaviour(502), Behaviour(200)),
)
HANGING = Merchant("garage", "hangs", 3, (Behaviour(hangs=True),), recovers=False)
FAILING = Merchant("museum", "always 500", 17, (Behaviour(500),), recovers=False)

MERCHANTS = (HEALTHY, HANGING, SLOW, PAUSED, FLAKY, FAILING)

MOVED_TO = "garage-repaired"
"""The path of the hanging merchant's receiver after its URL was changed."""


def merchant_at(path: str) -> str:
    """Name the merchant whose receiver has a path."""
    return HANGING.id if path == MOVED_TO else path
