"""ISO 8601 durations: weeks, or days, hours, minutes and seconds; never years or months, whose length varies.

Source: contract 5. A bare number is refused, since nobody can tell its unit.
"""

import re
from datetime import timedelta

_COUNT = r"[0-9]{1,7}"
_DURATION = re.compile(
    rf"P(?=[0-9T])(?:(?P<weeks>{_COUNT})W"
    rf"|(?:(?P<days>{_COUNT})D)?"
    rf"(?:T(?=[0-9])(?:(?P<hours>{_COUNT})H)?(?:(?P<minutes>{_COUNT})M)?"
    rf"(?:(?P<seconds>{_COUNT})(?:\.(?P<fraction>[0-9]{{1,6}}))?S)?)?)"
)


def parse_duration(text: str) -> timedelta:
    """Read a duration such as PT10S, PT1H30M or P30D; ValueError says what would be right."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an ISO 8601 duration{_suggestion(text)}")
    counts = {unit: int(match[unit] or 0) for unit in ("weeks", "days", "hours", "minutes", "seconds")}
    return timedelta(**counts, microseconds=int((match["fraction"] or "").ljust(6, "0")))


def render_duration(duration: timedelta) -> str:
    """Write a duration that is not negative in the form that `parse_duration` reads."""
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{duration.microseconds:06}".rstrip("0") if duration.microseconds else ""
    time = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes)
    time += f"{seconds}{fraction}S" * bool(seconds or fraction)
    date = f"{duration.days}D" * bool(duration.days)
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"


def _suggestion(text: str) -> str:
    if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,6})?", text):
        return f": for seconds write PT{text}S"
    if _DURATION.fullmatch(text.upper()):
        return f": write {text.upper()}"
    return ", such as PT10S, PT5M, PT1H or P30D"
