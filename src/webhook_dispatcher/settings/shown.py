"""Settings in words that others may read: as they can be set, and none that holds a secret."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import get_args, get_type_hints

from pydantic import SecretStr

from webhook_dispatcher.domain.duration import render_duration
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.settings.fields import Settings, variable

MAX_PUBLISHED = 300
"""Characters of a value that is published."""
_LEFT_OUT = ("api_", "console_", "instance_dir", "secrets_dir")
"""Of other programs, and what differs between the processes and machines of one installation."""
_USER_INFO = re.compile(r"//[^/?#]*@")


def published(settings: Settings) -> Mapping[str, str]:
    """Return what a dispatcher tells of its settings, by name: what is not as by default, and no secret.

    A URL goes without its user and password, also where it is not known to have some.
    """
    return {
        variable(name): _USER_INFO.sub("//", shown(value) or "")[:MAX_PUBLISHED].replace("\0", "")
        for name, field in type(settings).model_fields.items()
        if not name.startswith(_LEFT_OUT)
        and not holds_secret(field.annotation)
        and (value := getattr(settings, name)) != field.get_default(call_default_factory=True)
    }


def holds_secret(kind: object) -> bool:
    """Tell whether values of a type are secrets, or have some inside."""
    if is_dataclass(kind):
        return any(map(holds_secret, get_type_hints(kind).values()))
    return kind is SecretStr or any(map(holds_secret, get_args(kind)))


def is_given(value: object) -> bool:
    """Tell whether a value says anything."""
    return value is not None and value not in ((), frozenset())


def shown(value: object) -> str | None:
    """Write a value as it can be set; None where there is none. Not for secrets."""
    if not is_given(value):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return ",".join(sorted(map(str, value)))
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Schedule):
        return ",".join(map(render_duration, value.delays))
    if isinstance(value, RateLimits):
        limits = {field.name: getattr(value, field.name) for field in fields(value)}
        return " ".join(f"{name}={one.most}/{render_duration(one.window)}" for name, one in limits.items())
    return render_duration(value) if isinstance(value, timedelta) else str(value)
