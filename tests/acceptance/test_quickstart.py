"""docs/quickstart.md: its commands, as they are printed, lead to a first delivery."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.external_programs import program
from tests.servers.database import own_server
from tests.waiting import MAX_WAIT, until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
INSTALLING = 10 * MAX_WAIT


def commands(name: str) -> bytes:
    [block] = re.findall(rf'^```sh title="{name}"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    return str(block).encode()


@contextmanager
def terminal(folder: Path, environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Have a shell that does what is written to it, and ends with all that it has started."""
    with (
        log.open("wb") as said,
        subprocess.Popen(
            ["bash", "-e"],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            bufsize=0,
            process_group=0,
        ) as process,
    ):
        try:
            yield process
        finally:
            os.killpg(process.pid, 15)


@pytest.mark.timeout(2 * INSTALLING)
@pytest.mark.slow(
    "acceptance/test_listen.py::test_a_request_is_forwarded_as_it_came_and_answered_as_its_receiver_answers"
)
async def test_the_quick_start_works_as_it_is_printed(tmp_path: Path) -> None:
    program("psql", "postgresql-client")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    # This checkout's wheel under the name that the page installs; all else comes from where pip has it.
    (tmp_path / "constraint").write_text(f"webhook-dispatcher @ {wheel.as_uri()}\n")
    with own_server({}) as server:
        place = parse_qs(urlsplit(server.dsn()).query)
        environ = {name: text for name, text in os.environ.items() if not name.startswith("WEBHOOK_")} | {
            "PGHOST": place["host"][0],
            "PGPORT": place["port"][0],
            "PGUSER": "postgres",
            "PIP_CONSTRAINT": str(tmp_path / "constraint"),
            "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
        }
        logs = [tmp_path / "first", tmp_path / "second"]
        with terminal(tmp_path, environ, logs[0]) as first, terminal(tmp_path, environ, logs[1]) as second:
            assert first.stdin is not None
            assert second.stdin is not None

            def is_there(file: Path, text: str) -> bool:
                assert (first.poll(), second.poll()) == (None, None), [log.read_text() for log in logs]
                return file.exists() and text in file.read_text()

            first.stdin.write(commands("in one terminal"))
            await until(lambda: is_there(tmp_path / "secret", "whsec_"), INSTALLING)
            second.stdin.write(commands("in a second one, in the same folder"))
            await until(lambda: is_there(logs[1], "listening at"))
            first.stdin.write(commands("in the first one again"))
            await until(lambda: is_there(logs[0], "outcome delivered"))
            await until(lambda: logs[1].read_text().count("signature right, answered 200\n") == 2)
    said = logs[1].read_text()
    assert "charge.succeeded" in said
    assert "charge.failed" in said
