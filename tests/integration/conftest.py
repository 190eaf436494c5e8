"""Sender tests run on the daemon's own event loop: uvloop and asyncio raise different errors.

They run against both senders: where a module names `Sender`, it is given one after the other.
"""

import sys
from asyncio import AbstractEventLoop, new_event_loop
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack

import asyncpg
import pytest
import uvloop

from tests.integration.second_endpoints import second_endpoints_in
from tests.integration.senders import OURS_ALONE, SENDERS
from tests.integration.storage_harness import Daemon, StorageHarness, open_storage
from tests.servers.database import Connect, Database

LoopFactories = Mapping[str, Callable[[], AbstractEventLoop]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> LoopFactories:
    """Choose uvloop for test_sender*; test_sender_guard replaces methods of asyncio's own loop."""
    name = item.path.stem
    if name.startswith("test_sender") and name != "test_sender_guard":
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": new_event_loop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what posts through a sender with each of them, unless the table says that it is about ours.

    What asks for it is run with second endpoints, too.
    """
    module, test = metafunc.module.__name__.rpartition(".")[2], metafunc.function.__name__
    if metafunc.definition.get_closest_marker("also_with_two_endpoints"):
        metafunc.parametrize("second_endpoints", [False, True], ids=["one", "two"], indirect=True)
    if not module.startswith(("test_sender", "test_rebinding")) or not hasattr(metafunc.module, "Sender"):
        return
    senders = ["llhttp"] if test in OURS_ALONE else list(SENDERS)
    metafunc.parametrize("sender_class", senders, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def sender_class(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Let `Sender` be this one in all test modules, since they borrow from each other; say which it is."""
    which: str | None = getattr(request, "param", None)
    with pytest.MonkeyPatch.context() as patch:
        for name, module in sys.modules.copy().items():
            if which is not None and name.startswith("tests.integration.test_") and hasattr(module, "Sender"):
                patch.setattr(module, "Sender", SENDERS[which])
        yield which


@pytest.fixture(autouse=True)
def second_endpoints(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have everybody who is given an endpoint get a second one, where the test is asked for so."""
    if getattr(request, "param", False):
        with second_endpoints_in(request.getfixturevalue("database")):
            yield
    else:
        yield


@pytest.fixture
async def storage(database: Database) -> AsyncIterator[StorageHarness]:
    """Open a fresh database to work on from several connections."""
    async with open_storage(database) as harness:
        yield harness


@pytest.fixture
async def here(storage: StorageHarness) -> Daemon:
    """Let one daemon work on it."""
    return await storage.daemon("here")


@pytest.fixture
async def connect(database: Database) -> AsyncIterator[Connect]:
    """Connect to a fresh database as whoever is named, by default its superuser."""
    async with AsyncExitStack() as stack:

        async def connect(user: str = "postgres") -> asyncpg.Connection:
            connection = await database.connect(user)
            stack.push_async_callback(connection.close)
            return connection

        yield connect


@pytest.fixture
async def db(connect: Connect) -> asyncpg.Connection:
    """Connect to a fresh database as its superuser."""
    return await connect()
