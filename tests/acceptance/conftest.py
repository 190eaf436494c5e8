"""Acceptance tests: real daemon processes on a real Postgres, judged by what a receiver logged."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation
from tests.servers.database import Database


@pytest.fixture
async def installation(database: Database, tmp_path: Path) -> AsyncIterator[Installation]:
    """Put an installation together; daemons are started by the test."""
    # Debugging would slow down the receiver and the producers, which share this loop.
    asyncio.get_running_loop().set_debug(False)
    async with Installation(database, tmp_path) as installation:
        yield installation


@pytest.fixture
async def own_world(own_database: Database, tmp_path: Path) -> AsyncIterator[Installation]:
    """Put an installation together on a server of the module's own, which the test may end or exchange."""
    asyncio.get_running_loop().set_debug(False)
    async with Installation(own_database, tmp_path) as installation:
        yield installation
