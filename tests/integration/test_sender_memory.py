"""What a receiver answers does not fill our memory, however much it is."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.integration.senders import SENDERS
from tests.network import misbehaviour as m
from tests.network.raw_receiver import OK, status

MOST = 20 << 20
PLENTY = [
    m.does(m.drips(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")),
    m.does(m.pours(b"HTTP/1.1 200 OK\r\n\r\n")),
    m.does(
        m.pours(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + b"x" * 32768 + b"\r\n"
        )
    ),
    m.does(m.pours(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")),
    m.says(status("200 OK", "Content-Encoding: gzip", body=m.gzip_bomb())),
    m.does(m.pours(b"HTTP/1.1 200 ")),
    m.does(m.pours(b"HTTP/1.1 200 OK\r\nX: ")),
    m.does(m.pours(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 10_000)),
]


# Gigabytes are on offer, and a busy machine takes from ten seconds to minutes to pour them.
@pytest.mark.slow("integration/test_sender_excerpts.py::test_an_endless_body_is_left_once_there_is_enough")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", SENDERS)
async def test_memory_is_bounded_whatever_is_answered(kind: str, tmp_path: Path) -> None:
    m.authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with AsyncExitStack() as stack:
        targets = [await stack.enter_async_context(scene()) for scene in (m.says(OK), *PLENTY)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.memory_growth", kind, tmp_path / "ca.pem"),
            *[target.url for target in targets],
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), 540)
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0
    grown = [line.split() for line in printed.decode().splitlines()]
    assert [outcome for outcome, _ in grown] == ["delivered"] * 5 + ["bad_response"] * 3
    assert [bytes_more for _, bytes_more in grown if int(bytes_more) > MOST] == []
