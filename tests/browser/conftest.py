"""Tests in a real browser, against real processes on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation
from tests.servers.database import Database


@pytest.fixture
async def installation(database: Database, tmp_path: Path) -> AsyncIterator[Installation]:
    """Put an installation together; daemons are started by the test."""
    # Debugging would slow down the receiver, which shares this loop.
    asyncio.get_running_loop().set_debug(False)
    async with Installation(database, tmp_path) as installation:
        yield installation
