"""How often the Partner API may be asked. Source of the numbers: partner-api.md 8."""

import re
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Self

from webhook_dispatcher.domain.duration import parse_duration

MAX_LIMIT = 1500
WINDOWS = timedelta(seconds=1), timedelta(days=1)
_ONE = re.compile(r"([a-z]+)=([0-9]{1,4})/(P\S+)")


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many in any window of that length; 0 is no limit."""

    most: int
    window: timedelta

    def __post_init__(self) -> None:
        shortest, longest = WINDOWS
        if not (0 <= self.most <= MAX_LIMIT and shortest <= self.window <= longest):
            raise ValueError(f"a limit is 0 to {MAX_LIMIT} in {shortest} to {longest}")


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What is limited: tokens, by client id and IP address; confirmations, by card; all else, by API key."""

    client: Limit = Limit(30, timedelta(minutes=1))
    address: Limit = Limit(60, timedelta(minutes=1))
    card: Limit = Limit(10, timedelta(minutes=15))
    key: Limit = Limit(600, timedelta(minutes=1))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read limits such as `key=600/PT1M`, separated by white space; those that are not named stay."""
        names = [field.name for field in fields(cls)]
        limits = cls()
        for part in text.split():
            match = _ONE.fullmatch(part)
            if match is None or match[1] not in names:
                raise ValueError(f"must be of the form {'|'.join(names)}=number/duration, not {part!r}")
            limits = replace(limits, **{match[1]: Limit(int(match[2]), parse_duration(match[3]))})
        return limits
