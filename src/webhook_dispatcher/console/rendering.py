"""Pages out of templates, which escape all that they are given, but for what is made here and in `plots`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlencode
from uuid import UUID

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from webhook_dispatcher.console import names, texts
from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.console.static_files import StaticFiles
from webhook_dispatcher.diagnosis import amounts, reasons, vocabulary
from webhook_dispatcher.diagnosis.said import Word
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.storage.console.reading import MAX_COUNTED


def merchant_path(merchant_id: str) -> str:
    """Return the path of a merchant's page."""
    return f"/merchants/{names.written(merchant_id)}"


def delivery_path(event_id: UUID | str) -> str:
    """Return the path of a delivery's page."""
    return f"/deliveries/{event_id}"


def with_query(path: str, fields: Mapping[str, object]) -> str:
    """Return a path with those fields that have a value."""
    filled = {name: str(value) for name, value in fields.items() if value not in (None, "")}
    return f"{path}?{urlencode(filled)}" if filled else path


class Renderer:
    """Makes pages; templates are compiled when they are first asked for. installation: named on each page."""

    def __init__(self, static: StaticFiles, clock: Clock, installation: str | None = None) -> None:
        self._clock = clock
        self._environment = Environment(
            loader=PackageLoader("webhook_dispatcher.console"),
            autoescape=True,
            finalize=_named,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals.update(
            asset=static.path,
            merchant_path=merchant_path,
            delivery_path=delivery_path,
            choices=vocabulary.choices,
            installation=installation,
        )

    def page(self, template: str, reader: Reader, facts: Mapping[str, object]) -> bytes:
        """Render a page for somebody."""
        now = datetime.fromtimestamp(self._clock.unix(), UTC)
        words = {
            "language": reader.language,
            "theme": reader.theme,
            "zone": reader.zone.key,
            "now": now,
            "said": None,
            "t": lambda key, /, **facts: texts.say(key, reader.language, **facts),
            "label": partial(label, reader),
            "reason": partial(reason, reader),
            "number": partial(amounts.number, language=reader.language),
            "counted": partial(counted, reader),
            "span": partial(amounts.span, language=reader.language),
            "when": partial(when, reader, now),
            "clock": partial(clock, reader),
        }
        return self._environment.get_template(template).render({**words, **facts}).encode("utf-8", "replace")


def _named(shown: object) -> object:
    """Write the mark in a lane's name as text, where one came to be shown all the same."""
    return shown.replace("\x1f", ", endpoint ") if isinstance(shown, str) else shown


def label(reader: Reader, kind: str, value: str) -> str:
    """Write a value of a closed list; one that we do not know, as it is."""
    return vocabulary.label(Word(kind, value), reader.language)


def reason(reader: Reader, text: str) -> str:
    """Say in the reader's words what the guard, a dispatcher or a rejected command says in English."""
    return vocabulary.say(reasons.read(text), reader.language, reader.zone)


def counted(reader: Reader, count: int, most: int = MAX_COUNTED) -> str:
    """Write a count that was ended at one above the most: beyond it stands "10,000+"."""
    return (
        amounts.number(most, reader.language) + "+"
        if count > most
        else amounts.number(count, reader.language)
    )


def when(reader: Reader, now: datetime, instant: datetime | str | None, is_exact: bool = False) -> Markup:
    """Write an instant in the reader's zone, with UTC in its title; a dash where there is no instant."""
    if not isinstance(instant, datetime):
        return Markup("\N{EN DASH}")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        instant.astimezone(UTC).isoformat(),
        amounts.at(instant, UTC),
        shown_instant(reader, now, instant, is_exact),
    )


def clock(reader: Reader, instant: datetime) -> str:
    """Write an instant's hour and minute in the reader's zone."""
    there = instant.astimezone(reader.zone)
    return f"{there.hour:02}:{there.minute:02}"


def shown_instant(reader: Reader, now: datetime, instant: datetime, is_exact: bool) -> str:
    """Write an instant: of today the time alone, of other days the day too. is_exact: with milliseconds."""
    there, today = instant.astimezone(reader.zone), now.astimezone(reader.zone)
    if is_exact:
        return f"{there:%Y-%m-%d %H:%M:%S}.{there.microsecond // 1000:03d}"
    if there.date() == today.date():
        return f"{there:%H:%M:%S}"
    return f"{there:%m-%d %H:%M}" if abs(today - there) < timedelta(days=180) else f"{there:%Y-%m-%d}"
