"""The wheel of `make dist` at work, beside its locked dependencies and nothing else.

INSTALLED names its command. `make test` leaves this out: what is installed there is the checkout.
"""

import os
import subprocess
from pathlib import Path

from tests.acceptance.installation import Installation
from tests.acceptance.processes import environment
from tests.servers.database import Database, own_server
from tests.waiting import MAX_WAIT

ROOT = Path(__file__).parents[2]


def start(folder: Path, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [os.environ["INSTALLED"], *arguments],
        cwd=folder,
        env=environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *arguments: str, **settings: str) -> str:
    with start(folder, *arguments, **settings) as process:
        output, _ = process.communicate(timeout=MAX_WAIT)
    assert process.returncode == 0, output
    return output


def test_it_tells_its_version_and_its_commands(tmp_path: Path) -> None:
    [wheel] = (ROOT / "dist").glob("*.whl")
    assert run(tmp_path, "--version") == f"webhook-dispatcher {wheel.name.split('-')[1]}\n"
    assert "migrate" in run(tmp_path, "--help")


async def test_it_makes_the_schema_and_delivers(tmp_path: Path) -> None:
    with own_server({}) as server:
        database = Database(server, "postgres")
        assert "made:" in run(tmp_path, "migrate", MIGRATION_DATABASE_URL=database.dsn("postgres"))
        async with Installation(database, tmp_path) as installation:
            await installation.configure("m1")
            run(tmp_path, "check", **installation.settings())
            sent = await installation.emit("m1")
            with start(tmp_path, "run", **installation.settings(LOG_LEVEL="warning")) as daemon:
                try:
                    await installation.settled(sent.id, "delivered", 1)
                    daemon.terminate()
                    assert daemon.wait(MAX_WAIT) == 0
                finally:
                    daemon.kill()
