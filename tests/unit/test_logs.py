"""Logs: one JSON object per line, nothing secret, and never an error for the caller."""

import asyncio
import io
import json
import logging
import os
import re
import resource
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
import structlog

from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.telemetry.logs import MASKED, configure

PROCESS_SECRET = "whsec_0123456789abcdef0123456789abcdef"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def stream() -> io.StringIO:
    """Return what is written to as JSON from the level info on, until another is chosen."""
    stream = io.StringIO()
    configure("json", "info", stream)
    return stream


async def test_lines_of_one_turn_of_the_loop_are_written_together(stream: io.StringIO) -> None:
    log = structlog.get_logger()
    log.info("first.done")
    log.warning("second.failed")
    assert not stream.getvalue()
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()
    assert [line["event"] for line in lines(stream)] == ["first.done", "second.failed"]


async def test_an_error_is_written_at_once_behind_what_came_before(stream: io.StringIO) -> None:
    log = structlog.get_logger()
    log.info("first.done")
    log.error("second.failed")
    assert [line["event"] for line in lines(stream)] == ["first.done", "second.failed"]


def test_no_line_waits_for_a_loop_that_has_ended(stream: io.StringIO) -> None:
    log = structlog.get_logger()

    async def tell(event: str) -> None:
        log.info(event)

    for event in ("first.done", "second.done"):
        asyncio.run(tell(event))
    log.info("third.done")
    assert [line["event"] for line in lines(stream)] == ["first.done", "second.done", "third.done"]


def test_a_warning_that_says_the_same_again_is_left_out(stream: io.StringIO) -> None:
    log = structlog.get_logger()
    for _ in range(5):
        log.warning("claim.failed", error="the database is away")
    assert [line["event"] for line in lines(stream)] == ["claim.failed"]


def test_numbers_beyond_64_bits_are_written_as_they_are(stream: io.StringIO) -> None:
    structlog.get_logger().info("count.read", count=2**70)
    assert lines(stream)[0]["count"] == 2**70


def test_an_event_is_one_line_of_json_with_time_and_level(stream: io.StringIO) -> None:
    structlog.get_logger().info(
        "delivery.attempted", attempt=1, state=State.DELIVERED, note="a\nb\u2028\udce9"
    )
    (line,) = lines(stream)
    assert datetime.fromisoformat(line.pop("at")).tzinfo is not None
    assert line == {
        "event": "delivery.attempted",
        "level": "info",
        "attempt": 1,
        "state": "delivered",
        "note": "a\nb\u2028\udce9",
    }


def test_values_that_json_does_not_know_are_written_plainly(stream: io.StringIO) -> None:
    structlog.get_logger().info(
        "x.happened",
        event_id=UUID(int=1),
        since=datetime(2026, 11, 20, tzinfo=UTC),
        lease=timedelta(milliseconds=1500),
        raw=b"\x00\xff",
        names={"b", "a"},
    )
    (line,) = lines(stream)
    assert line["event_id"] == "00000000-0000-0000-0000-000000000001"
    assert (line["since"], line["lease"]) == ("2026-11-20T00:00:00Z", 1.5)
    assert (line["raw"], line["names"]) == ("(2 bytes)", ["a", "b"])


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("key", sorted(MASKED))
def test_what_could_be_secret_is_masked_at_any_depth(stream: io.StringIO, log_format: Any, key: str) -> None:
    configure(log_format, "debug", stream)
    structlog.get_logger().debug(
        "x.happened", **{key: PROCESS_SECRET}, request={"headers": {key: PROCESS_SECRET}}
    )
    assert PROCESS_SECRET not in stream.getvalue()
    assert stream.getvalue().count("(hidden)") == 2


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_local_variables(stream: io.StringIO, log_format: Any) -> None:
    configure(log_format, "info", stream)
    local = Secret(PROCESS_SECRET).revealed.decode()
    try:
        raise RuntimeError("broken" + local[:0])
    except RuntimeError:
        structlog.get_logger().exception("task.failed")
    assert "RuntimeError: broken" in stream.getvalue()
    assert PROCESS_SECRET not in stream.getvalue()


def test_levels_below_the_chosen_one_are_left_out(stream: io.StringIO) -> None:
    configure("json", "warning", stream)
    log = structlog.get_logger()
    log.info("a.happened")
    log.warning("b.happened")
    assert [line["event"] for line in lines(stream)] == ["b.happened"]


@pytest.mark.parametrize(("stream", "is_json"), [(io.StringIO(), True), (Terminal(), False)])
def test_without_a_format_a_terminal_gets_console_and_others_json(stream: io.StringIO, is_json: bool) -> None:
    configure(None, "info", stream)
    structlog.get_logger().info("a.happened")
    assert stream.getvalue().startswith("{") is is_json


def test_libraries_and_warnings_log_through_us_from_warning_on(stream: io.StringIO) -> None:
    configure("json", "debug", stream)
    logging.getLogger("asyncio").warning("Task was destroyed: %s", "x")
    logging.getLogger("aiohttp.access").info("GET /metrics")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)
    asyncio_line, warning_line = lines(stream)
    assert (asyncio_line["event"], asyncio_line["logger"]) == ("Task was destroyed: x", "asyncio")
    assert (asyncio_line["level"], warning_line["logger"]) == ("warning", "py.warnings")


def test_configuring_again_replaces_the_stream(stream: io.StringIO) -> None:
    second = io.StringIO()
    configure("json", "info", second)
    logging.getLogger("x").error("once")
    assert (stream.getvalue(), len(lines(second))) == ("", 1)


def test_a_stream_that_cannot_be_written_to_never_fails_the_caller() -> None:
    configure("json", "info", Gone())
    structlog.get_logger().info("a.happened")
    closed = io.StringIO()
    configure("json", "info", closed)
    closed.close()
    structlog.get_logger().info("a.happened")


def test_what_a_full_disk_refused_does_not_fail_at_the_end(tmp_path: Path) -> None:
    """Python flushes standard error as it ends, and exits with 120 when that fails."""
    limit, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (tmp_path / "log").open("w") as stream:
        configure("json", "info", stream)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard_limit))
        try:
            structlog.get_logger().warning("disk.filled")
            stream.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard_limit))
        structlog.get_logger().warning("disk.emptied")
        assert "disk.emptied" in (tmp_path / "log").read_text()


def test_what_a_terminal_cannot_show_is_escaped_not_lost() -> None:
    raw = io.BytesIO()
    configure("console", "info", io.TextIOWrapper(raw, encoding="ascii"))
    structlog.get_logger().info("merchant.named", name="Café")
    assert b"Caf\\xe9" in raw.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_what_nobody_reads_is_dropped_and_holds_up_nobody(log_format: Literal["json", "console"]) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        configure(log_format, "info", stream)
        log = structlog.get_logger()
        for number in range(2_000):
            log.warning("something.happened", number=number, text="x" * 1_000)
        with os.fdopen(reading, encoding="utf-8") as reader:
            read = []
            while "log.dropped" not in (line := reader.readline()):
                read.append(line)
            numbers = [int(found[1]) for line in read if (found := re.search(r"number\W+(\d+)", line))]
            assert len(numbers) == len(read)
            assert numbers == list(range(len(read))), "what came first is kept, in order"
            dropped = re.search(r"lines\W+(\d+)", line)
            assert dropped is not None
            assert int(dropped[1]) == 2_000 - len(read) > 1_000
            log.warning("something.else")
            assert "something.else" in reader.readline()


def test_a_reader_that_goes_away_while_lines_wait_ends_the_waiting() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        configure("json", "info", stream)
        log = structlog.get_logger()
        for _ in range(200):
            log.warning("something.happened", text="x" * 1_000)
        [waiting] = [thread for thread in threading.enumerate() if thread.name == "log"]
        os.close(reading)
        waiting.join(20)
        assert not waiting.is_alive()
        log.warning("something.else")
