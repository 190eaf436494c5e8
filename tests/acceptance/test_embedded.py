"""`run --embedded`: a database, a daemon, Partner API and console by one command, which all end together."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

import aiohttp
import pytest

from tests.acceptance.console_people import browser
from tests.acceptance.installation import make_key
from tests.acceptance.processes import Daemon, environment, process_exists
from tests.waiting import until

RUN_EMBEDDED = ("webhook_dispatcher", "run", "--embedded")
SAID = "said"
"""The file that has what it says to people."""


@contextmanager
def embedded(folder: Path, **settings: str) -> Iterator[Daemon]:
    (folder / "keys").write_text(make_key("k1") + "\n")
    given = {
        "SECRET_KEYS_FILE": "keys",
        "DATA_DIR": str(folder / "data"),
        "OPS_ADDRESS": "127.0.0.1:0",
        "API_OPS_ADDRESS": "127.0.0.1:0",
        "API_ADDRESS": "127.0.0.1:0",
        "CONSOLE_ADDRESS": "127.0.0.1:0",
        **settings,
    }
    with (folder / "log").open("wb") as log, (folder / SAID).open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *RUN_EMBEDDED],
            env=environment(given),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=log,
        )
    daemon = Daemon(process, folder / "log")
    try:
        yield daemon
    finally:
        daemon.terminate()
        daemon.process.wait()


def child_of(parent: int, word: str) -> int:
    """Return the process that a process has started with a word in its command line."""
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        for pid in map(int, children.read_text().split()):
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
    raise AssertionError(f"no {word}")


async def signs_people_in(daemon: Daemon, base: str) -> None:
    """Use the code that is printed at the console, and one by the command that is printed beside it."""
    said = daemon.log_file.with_name(SAID).read_text()
    [(url, code)] = re.findall(
        r"^the console is at (\S+): sign in with the code (\S+), once, within sixty seconds; for another:$",
        said,
        re.M,
    )
    assert url == base
    async with browser(base) as client:
        assert (await client.post("/sign-in", {"code": code})).location == "/"
        health = await client.get("/health")
        assert "WEBHOOK_EGRESS_ALLOW_NETWORKS" in health.text
        assert "127.0.0.0/8" in health.text
    assert code not in daemon.log_file.read_text()
    command = said.splitlines()[-1].replace(
        "webhook-dispatcher", f"{quote(sys.executable)} -m webhook_dispatcher"
    )
    another = subprocess.run(command, shell=True, env=environment({}), capture_output=True, check=True)
    async with browser(base) as client:
        assert (await client.post("/sign-in", {"code": another.stdout.decode().strip()})).location == "/"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(
            signal.SIGTERM,
            0,
            marks=pytest.mark.slow(
                "acceptance/test_embedded.py::test_api_and_console_serve_without_a_key_and_end_with_their_daemon"
            ),
        ),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
async def test_api_and_console_serve_without_a_key_and_end_with_their_daemon(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with embedded(tmp_path, EGRESS_ALLOW_NETWORKS="127.0.0.0/8") as daemon:
        url = (await daemon.logged("api.started"))["url"]
        await daemon.logged("daemon.started")
        console_url = (await daemon.logged("console.started"))["url"]
        programs = [child_of(daemon.process.pid, name) for name in ("api", "console")]
        for program in programs:
            environ = Path(f"/proc/{program}/environ").read_bytes().split(b"\0")
            names = [pair.split(b"=")[0] for pair in environ]
            assert b"WEBHOOK_DATABASE_URL" in names
            assert not [name for name in names if name.startswith(b"WEBHOOK_SECRET_KEYS")]
            assert os.getpgid(program) == program
        async with aiohttp.ClientSession() as session, session.get(f"{url}/webhook") as response:
            assert (response.status, (await response.json())["error"]["code"]) == (401, -11004)
        async with aiohttp.ClientSession() as session, session.get(f"{console_url}/sign-in") as response:
            assert response.status == 200
        await signs_people_in(daemon, console_url)
        daemon.process.send_signal(number)
        assert await daemon.ended() == code
        await until(lambda: not any(map(process_exists, programs)))
