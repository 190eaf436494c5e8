"""Sender tests run on the daemon's own event loop: uvloop and asyncio raise different errors."""

from asyncio import AbstractEventLoop, new_event_loop
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.conftest import Database
from tests.integration.workbench import Workbench, open_workbench

LoopFactories = Mapping[str, Callable[[], AbstractEventLoop]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> LoopFactories:
    """Choose uvloop for test_sender*; test_sender_guard replaces methods of asyncio's own loop."""
    name = item.path.stem
    if name.startswith("test_sender") and name != "test_sender_guard":
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": new_event_loop}


@pytest.fixture
async def bench(database: Database) -> AsyncIterator[Workbench]:
    """Open a fresh database to work on from several connections."""
    async with open_workbench(database) as workbench:
        yield workbench
