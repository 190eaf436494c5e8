"""Whether the bounds of `server` hold with the aiohttp that is installed: they rest on private names.

With another one nothing may listen: a name that is not there any more is set without effect.
"""

import re

import aiohttp
from aiohttp.web_protocol import RequestHandler

from webhook_dispatcher.domain.errors import ConfigurationError

VERSION, NEXT_VERSION = (3, 14, 5), (3, 15, 0)
"""From the first on, and before the second; pyproject.toml asks for the same."""
NAMES = frozenset(
    {
        "_drain_helper",
        "_handle_request",
        "_max_msg_queue_size",
        "_messages",
        "_msg_queue_resume_size",
        "_request_count",
        "_request_in_progress",
        "_waiter",
    }
)
"""What `server` sets, reads or replaces of aiohttp's protocol."""


def check(version: str = aiohttp.__version__, protocol: type = RequestHandler) -> None:
    """Raise ConfigurationError where the bounds might not hold. protocol: aiohttp's, which is built upon."""
    numbers = re.fullmatch(r"([0-9]+)\.([0-9]+)\.([0-9]+)", version)
    is_known = numbers is not None and VERSION <= tuple(map(int, numbers.groups())) < NEXT_VERSION
    if is_known and all(hasattr(protocol, name) for name in NAMES):
        return
    low, high = (".".join(map(str, each)) for each in (VERSION, NEXT_VERSION))
    raise ConfigurationError(
        f"aiohttp is of version {version}, in which bounds of memory and time may not hold",
        remedy=f'install "aiohttp>={low},<{high}"',
    )
