"""The demo as a process of its own, as `make demo` starts it."""

import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.console_people import browser
from tests.acceptance.processes import command, environment
from tests.waiting import MAX_WAIT, until
from webhook_dispatcher.cli.demo import cast

DEADLINE = MAX_WAIT
START = "metrics at "
ADDRESSES = {"WEBHOOK_API_ADDRESS": "127.0.0.1:0", "WEBHOOK_CONSOLE_ADDRESS": "127.0.0.1:0"}
"""Several demos run at once here."""


def demo(folder: Path, **variables: str) -> AbstractContextManager[subprocess.Popen[str]]:
    environ = {**environment({}), "TMPDIR": str(folder), **ADDRESSES, **variables}
    return command("demo", environ=environ, stderr=subprocess.STDOUT)


def processes_in(folder: Path) -> list[str]:
    """Name the processes that have the folder in their command line or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            place = (process / "cwd").readlink()
        except OSError:
            continue
        if place.is_relative_to(folder) or any(os.fsencode(folder) in word for word in words):
            found.append(f"{process.name}: {words}")
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own: its parents are private, and the user nobody could not pass.
    made = Path(tempfile.mkdtemp(prefix="webhook-test-")).resolve()
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


def test_a_short_demo_finds_that_everything_agrees(folder: Path) -> None:
    with demo(folder, DEMO_EVENTS="30") as process:
        output, _ = process.communicate(timeout=4 * MAX_WAIT)
    assert process.returncode == 0, output
    assert "  events        32  31 delivered, 0 to retry, 1 failed, 0 not sent yet\n" in output
    check_verdict(output)
    table = output[output.rindex("its receiver") :]
    assert re.search(r"^garage +moved: 200 ", table, re.MULTILINE), table
    assert re.search(r"^museum +500 again ", table, re.MULTILINE), table
    for kind in ("retry", "retry_failed", "test_event", "set_url", "pause", "resume", "cancel"):
        assert re.search(rf"^{kind} \S+: done ", output, re.MULTILINE), kind
    asked = re.findall(r"^API  (\w+) +/v1(\S+) +museum +200 +\d+ ms$", output, re.MULTILINE)
    assert re.search(r"^the Partner API at http://127\.0\.0\.1:\d+/v1$", output, re.MULTILINE)
    assert asked == [
        ("POST", "/auth/token"),
        ("GET", "/deliveries?state=failed"),
        ("GET", "/deliveries/{eventId}"),
        ("GET", "/charges/{id}"),
        ("POST", "/deliveries/{eventId}/retry"),
    ]
    assert "\n  API            5  asked by a merchant, 0 answered wrong\n" in output
    assert processes_in(folder) == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(
            signal.SIGINT,
            marks=pytest.mark.slow("acceptance/test_demo.py::test_ctrl_c_in_any_phase_leaves_nothing_behind"),
        ),
        pytest.param(
            signal.SIGTERM,
            marks=pytest.mark.slow("acceptance/test_demo.py::test_ctrl_c_in_any_phase_leaves_nothing_behind"),
        ),
    ],
)
def test_nothing_runs_on_after_a_demo_was_stopped(folder: Path, number: signal.Signals) -> None:
    with demo(folder) as process:
        assert process.stdout is not None
        assert any(line.startswith(START) for line in process.stdout)
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(DEADLINE) == 0
    assert processes_in(folder) == []


@pytest.mark.slow("acceptance/test_demo.py::test_a_short_demo_finds_that_everything_agrees")
def test_the_last_line_of_a_demo_works_as_it_is_printed(folder: Path) -> None:
    with demo(folder, DEMO_EVENTS="20") as process:
        output, _ = process.communicate(timeout=4 * MAX_WAIT)
    settings = {
        "WEBHOOK_DATA_DIR": str(folder),
        "WEBHOOK_LOG_LEVEL": "error",
        "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
    }
    with subprocess.Popen(
        ["sh", "-c", f"exec {output.splitlines()[-1]}"],
        env={**os.environ, **ADDRESSES, **settings, "WEBHOOK_API_OPS_ADDRESS": "127.0.0.1:0"},
        stdout=subprocess.PIPE,
        text=True,
    ) as embedded:
        [base] = said(embedded, r"^the console is at (http://127\.0\.0\.1:\d+): sign in with the code ")
        assert urllib.request.urlopen(f"{base}/sign-in").status == 200
        embedded.terminate()
        assert embedded.wait(DEADLINE) == 0


def said(process: subprocess.Popen[str], *patterns: str) -> list[str]:
    """Read what the demo prints until each was matched by a line, in any order; return their groups."""
    assert process.stdout is not None
    found = dict[str, str]()
    while set(patterns) - found.keys():
        line = next(process.stdout)
        found |= {pattern: match[1] for pattern in patterns if (match := re.search(pattern, line))}
    return [found[pattern] for pattern in patterns]


async def test_whoever_watches_signs_in_with_the_code_that_is_shown_and_nothing_outlives_a_killed_demo(
    folder: Path,
) -> None:
    with demo(folder) as process:
        api, base, code = said(
            process,
            r"^the Partner API at (http://127\.0\.0\.1:\d+)/v1$",
            r"^the console at (http://127\.0\.0\.1:\d+)$",
            r"^sign in at the console with the code (\S+) \(once, within 60 s\)$",
        )
        async with aiohttp.ClientSession() as session, session.get(f"{api}/openapi.json") as response:
            assert "/v1/events" in (await response.json())["paths"], "the demo's merchants read their events"
        async with browser(base) as client:
            assert (await client.post("/sign-in", {"code": code})).location == "/"
            assert cast.RETRY_SCHEDULE in (await client.get("/health")).text
            verdict = await client.get("/merchants/bakery/url?url=https://127.0.0.1/")
            assert verdict.text.startswith('<span class="hint">'), verdict.text
        for program in ("'api'", "'console'"):
            assert any(program in found for found in processes_in(folder)), program
    # Killed, it leaves its servers to end by themselves.
    await until(lambda: not processes_in(folder))


@contextmanager
def demo_on_a_terminal(folder: Path) -> Iterator[tuple[int, int]]:
    """Start the demo as the only program of a terminal of 80 columns; give its pid and the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        # What a shell runs in the background ignores Ctrl-C, and so does all that is started from it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.environ.update(TMPDIR=str(folder), COLUMNS="80", LINES="24", TERM="xterm", **ADDRESSES)
        os.execv(sys.executable, [sys.executable, "-m", "webhook_dispatcher", "demo"])
    try:
        yield pid, terminal
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        os.close(terminal)


def shown(terminal: int, until: str = "") -> str:
    """Read what the terminal shows until a text, or until its end; without what only moves and colours."""
    deadline, text = time.monotonic() + DEADLINE, ""
    while not until or until not in text:
        assert select.select([terminal], [], [], deadline - time.monotonic())[0], text
        try:
            text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(terminal, 65536).decode(errors="replace"))
        except OSError:
            assert not until, text
            break
    return text.replace("\r\n", "\n")


def check_verdict(text: str) -> None:
    """Assert that the verdict is a good one and follows from its own figures, and that it is not the end."""
    found = re.search(
        r"^  events +(\d+)  (\d+) delivered, (\d+) to retry, (\d+) failed, (\d+) not sent yet$", text, re.M
    )
    assert found, text
    events, *states = map(int, found.groups())
    assert events == sum(states) > 0
    assert re.search(r"^  lost +0$", text, re.M), text
    assert re.search(r"^  repeated +0  accepted more than once$", text, re.M), text
    assert re.search(r"^  in order +([1-6])  of \1 merchants, by seq$", text, re.M), text
    assert "\nverdict: everything agrees\nnext, " in text
    assert shutil.which(shlex.split(text.splitlines()[-1])[0]), "its last line is a command"
    assert "Traceback" not in text


@pytest.mark.slow("acceptance/test_demo.py::test_a_short_demo_finds_that_everything_agrees")
def test_ctrl_c_on_a_terminal_ends_it_with_a_verdict_and_what_to_do_next(folder: Path) -> None:
    with demo_on_a_terminal(folder) as (pid, terminal):
        before = shown(terminal, until="attempt 3  200")
        os.write(terminal, b"\x03")
        after = shown(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert re.search(r"charge\.\w+ +kiosk +attempt 2  502 +\d+ ms\n", before), before
    assert re.search(r"charge\.\w+ +garage +attempt 1  no answer +\d+ ms\n", before), before
    check_verdict(after)
    assert [line for line in after.splitlines() if len(line) > 80] == [], after
    assert processes_in(folder) == []


ANOTHER_PHASE = pytest.mark.slow("acceptance/test_demo.py::test_ctrl_c_in_any_phase_leaves_nothing_behind")


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("starting a Postgres", marks=ANOTHER_PHASE),
        "making the schema",
        pytest.param(START, marks=ANOTHER_PHASE),
    ],
)
def test_ctrl_c_in_any_phase_leaves_nothing_behind(folder: Path, phase: str) -> None:
    with demo_on_a_terminal(folder) as (pid, terminal):
        shown(terminal, until=phase)
        os.write(terminal, b"\x03")
        after = shown(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (0, 130)
    assert "Traceback" not in after
    assert processes_in(folder) == []
    assert list(folder.iterdir()) == []
