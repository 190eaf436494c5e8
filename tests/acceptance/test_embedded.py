"""`run --embedded`: a database, a daemon and the Partner API by one command, which all end together."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.api_charges import charge, confirmed_card
from tests.acceptance.api_merchant import Merchant
from tests.acceptance.charge_service import ChargeServiceProcess
from tests.acceptance.installation import make_key
from tests.acceptance.processes import Daemon, environment, process_exists
from tests.servers.database import free_port
from tests.waiting import until

RUN_EMBEDDED = ("webhook_dispatcher", "run", "--embedded")


@contextmanager
def embedded(folder: Path, **settings: str) -> Iterator[Daemon]:
    given = {
        "SECRET_KEYS": make_key("k1"),
        "DATA_DIR": str(folder / "data"),
        "OPS_ADDRESS": "127.0.0.1:0",
        "API_OPS_ADDRESS": "127.0.0.1:0",
        "API_ADDRESS": "127.0.0.1:0",
        **settings,
    }
    daemon = Daemon.spawn(given, folder / "log", folder, RUN_EMBEDDED)
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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
async def test_the_api_answers_without_a_key_and_ends_with_its_daemon(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with embedded(tmp_path) as daemon:
        url = (await daemon.logged("api.started"))["url"]
        await daemon.logged("daemon.started")
        api = child_of(daemon.process.pid, "api")
        names = [pair.split(b"=")[0] for pair in Path(f"/proc/{api}/environ").read_bytes().split(b"\0")]
        assert b"WEBHOOK_DATABASE_URL" in names
        assert b"WEBHOOK_SECRET_KEYS" not in names
        async with aiohttp.ClientSession() as session, session.get(f"{url}/webhook") as response:
            assert (response.status, (await response.json())["error"]["code"]) == (401, -11004)
        assert os.getpgid(api) == api
        daemon.process.send_signal(number)
        assert await daemon.ended() == code
        await until(lambda: not process_exists(api))


def key_of(merchant_id: str, admin_url: str) -> dict[str, str]:
    """Make a key of the Partner API, as whoever has the laptop does."""
    command = ["-m", "webhook_dispatcher", "api-key", "create", merchant_id, "--name", "laptop", "--json"]
    environ = environment({"DATABASE_URL": admin_url})
    made = subprocess.run([sys.executable, *command], env=environ, capture_output=True, check=True)
    key: dict[str, str] = json.loads(made.stdout)
    return key


async def test_a_charge_made_at_the_sample_charge_service_is_read_and_its_events_are_listed(
    tmp_path: Path,
) -> None:
    """As examples/charge_service/README.md has it for laptops."""
    port = free_port()
    with embedded(tmp_path, API_UPSTREAM=f"http://127.0.0.1:{port}") as daemon:
        base = (await daemon.logged("api.started"))["url"].removesuffix("/v1")
        started = await daemon.logged("database.started")
        key = key_of("laptop", started["admin_url"])
        with ChargeServiceProcess(started["producer_url"], port):
            async with Merchant(base, key["client_id"], key["client_secret"]) as merchant:
                await merchant.log_in()
                made = await merchant.ask("POST", "/v1/charges", charge(await confirmed_card(merchant)))
                assert (made.status, made.data["status"]) == (201, "SUCCEEDED")
                read = await merchant.ask("GET", f"/v1/charges/{made.data['id']}")
                assert read.data == made.data
                listed = await merchant.ask("GET", f"/v1/deliveries?charge={made.data['id']}")
        steps = ["charge.split_completed", "charge.succeeded", "charge.created"]
        assert [delivery["type"] for delivery in listed.data] == steps
