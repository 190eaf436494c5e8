"""`listen` as a merchant's developer runs it: what it answers and says."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import pytest

from tests.acceptance.processes import environment
from webhook_dispatcher.domain.signing import Secret, signature

SECRET = Secret.from_random(bytes(range(32)))
OTHER = Secret.from_random(bytes(range(32, 64)))
BODY = b'{"id":"0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11"}'


@contextmanager
def listening() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with subprocess.Popen(
        [sys.executable, "-m", "webhook_dispatcher", "listen", "--port", "0"],
        env=environment({}) | {"LISTEN_SECRET": SECRET.revealed.decode()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().removeprefix("listening at ").strip(), process
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("secret", "age", "status", "said"),
    [
        (SECRET, 0, 200, "signature right"),
        (SECRET, 400, 400, "SIGNATURE RIGHT BUT MORE THAN 300 S OFF"),
        (OTHER, 0, 401, "SIGNATURE WRONG"),
        (OTHER, 400, 401, "SIGNATURE WRONG"),
        (None, 0, 401, "SIGNATURE MISSING"),
    ],
    ids=("right", "stale", "wrong", "stale and wrong", "missing"),
)
async def test_a_stale_event_is_told_from_a_wrong_signature(
    secret: Secret | None, age: int, status: int, said: str
) -> None:
    header = {"Service-Signature": signature(BODY, (secret,), int(time.time()) - age)} if secret else {}
    with listening() as (url, process):
        async with aiohttp.ClientSession() as client, client.post(url, data=BODY, headers=header) as response:
            assert response.status == status
        assert process.stdout is not None
        assert f"{said}, answered {status}" in process.stdout.readline()
