"""Structured logs: one JSON object per line, or coloured lines on a terminal.

Modules take `structlog.get_logger()` and name events `noun.past_verb`. Logging never fails its caller, nor
holds it up: what cannot be written (a closed pipe, a full disk, a reader that hangs) is dropped. Keys that
could hold a secret or a payload are masked as a safety net; nothing relies on it. Warnings that repeat
themselves are thinned out (throttle.py).
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from webhook_dispatcher.domain.event import render_instant
from webhook_dispatcher.telemetry.log_stream import writer_to
from webhook_dispatcher.telemetry.sampling import Sampling
from webhook_dispatcher.telemetry.throttle import Throttle

MASKED = frozenset(
    {
        "secret",
        "secrets",
        "signature",
        "body",
        "object",
        "authorization",
        "password",
        "dsn",
        "database_url",
        "key",
    }
)
MASK = "(hidden)"


def configure(
    log_format: Literal["json", "console"] | None, log_level: str, stream: TextIO, successes: float = 1.0
) -> None:
    """Send all logs to a stream; without a format, console on a terminal and JSON elsewhere.

    successes: the share of lines about attempts that delivered which is written (sampling.py).
    """
    level = logging.getLevelNamesMapping()[log_level.upper()]
    console = log_format == "console" or (log_format is None and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at") if console else stamp,
        mask,
    ]
    rendering: list[Processor] = [structlog.processors.format_exc_info, render]
    if console:
        rendering = _console(stream)

    def say_dropped(count: int) -> str:
        said: Any = {"event": "log.dropped", "lines": count}
        for step in (*shared, *rendering):
            said = step(None, "warning", said)
        return f"{said}\n"

    write = writer_to(stream, say_dropped)
    structlog.configure(
        # A line that the throttle drops must not take the count of those left out with it.
        processors=[Throttle(time.monotonic), Sampling(successes), *shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _Lines(write),
        cache_logger_on_first_use=True,
    )
    _adopt_libraries(max(level, logging.WARNING), shared, rendering, write)


def stamp(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Say when it happened; the encoder writes it at a sixth of what structlog's own stamper takes."""
    event["at"] = datetime.now(UTC)
    return event


def mask(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Hide the values of keys that have no business in a log."""
    if not MASKED.isdisjoint(event):
        for key in MASKED.intersection(event):
            event[key] = MASK
    for key, value in event.items():
        if type(value) is dict:
            event[key] = mask(logger, method, dict(value))
    return event


def render(logger: WrappedLogger, method: str, event: EventDict) -> str:
    """Write an event as one line of JSON, in plain ASCII."""
    try:
        line = orjson.dumps(event, default=_plain, option=_OPTIONS)
    except TypeError:  # an integer beyond 64 bits, half a surrogate pair
        return _encode(event)
    return line.decode() if line.isascii() else _encode(event)


class _Lines:
    """Writes finished lines; structlog calls the method named as the level.

    Up to a warning, as each attempt that failed is, they are written together when the event loop has run
    what was ready (a system call for each line costs more than making it); an error is written at once, with
    all that came before it.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write_to_stream = write
        self._waiting: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def info(self, line: str) -> None:
        self._waiting.append(line)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._flush()
            return
        if len(self._waiting) == 1 or loop is not self._loop:
            self._loop = loop
            loop.call_soon(self._flush)

    def error(self, line: str) -> None:
        self._waiting.append(line)
        self._flush()

    debug = warning = info
    critical = exception = msg = error

    def _flush(self) -> None:
        lines, self._waiting = self._waiting, []
        if lines:
            self._write("\n".join([*lines, ""]))

    def _write(self, text: str) -> None:
        # The reader of the logs may have gone away. Deliveries matter more than their log.
        with suppress(OSError, ValueError):
            self._write_to_stream(text)


class _Adopted(logging.Handler):
    """Writes the records of libraries as our own lines."""

    def __init__(self, formatter: logging.Formatter, write: Callable[[str], object]) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._lines = _Lines(write)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.error(self.format(record))


def _adopt_libraries(
    level: int, shared: Sequence[Processor], rendering: Sequence[Processor], write: Callable[[str], object]
) -> None:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
    )
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Adopted)]:
        root.removeHandler(handler)
    root.addHandler(_Adopted(formatter, write))
    root.setLevel(level)
    logging.captureWarnings(True)


def _console(stream: TextIO) -> list[Processor]:
    # The default formatter of exceptions would show local variables, secrets among them.
    return [
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty(),
            timestamp_key="at",
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]


def _plain(value: object) -> object:
    match value:
        case datetime():
            return render_instant(value)
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return f"({len(value)} bytes)"
        case frozenset() | set():
            return sorted(map(str, value))
        case _:
            return str(value)


# Values are ours to write: nothing is taken apart behind our backs that might hold a secret.
_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_encode = json.JSONEncoder(default=_plain, separators=(",", ":")).encode
