"""A real Postgres for the whole run, and a fresh migrated database for each test that asks for one."""

import atexit
import gc
import os
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests import servers
from tests.external_programs import lacking
from tests.servers.database import MIGRATED, TEMPLATE, Database, template_server
from tests.servers.pooler import Pooler, pooler_if_asked
from tests.servers.reused import Databases
from tests.servers.scaled_time import LIBRARY, living_in, scaled_time
from webhook_dispatcher.local.binaries import major_version
from webhook_dispatcher.local.postgres import EmbeddedPostgres

MEMORY = "/dev/shm"
MIN_MEMORY_BYTES = 8 * 1024**3
BROWSER = "tests/browser/"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the option of `make test-postgres`."""
    parser.addoption(
        "--of-the-server", action="store_true", help="leave out what does not depend on which Postgres runs"
    )


def pytest_configure() -> None:
    """Choose the seed of the short run under faults, the same for all workers; properties take their time."""
    hypothesis.settings.register_profile(
        "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("unhurried")
    os.environ.setdefault("CHAOS_SEED", str(secrets.randbits(32)))
    # No certificate here is of a public authority, and reading all of theirs takes 23 ms for each context.
    os.environ["SSL_CERT_FILE"] = os.devnull
    _keep_files_in_memory()
    # No program that a test starts in this checkout asks git which build it is.
    os.environ.setdefault("SETUPTOOLS_SCM_PRETEND_VERSION", "0.1.0")
    if MIGRATED not in os.environ:
        _make_folder_of_the_migrated()


def _make_folder_of_the_migrated() -> None:
    folder = Path(tempfile.mkdtemp(prefix="webhook-tests-"))
    folder.chmod(0o711)  # as root without namespaces the server runs as nobody, who has to pass
    os.environ[MIGRATED] = str(folder)
    atexit.register(shutil.rmtree, folder)


class OneBrowser(LoadFileScheduling):  # type: ignore[misc]
    """Gives a module to one process, and all tests with a browser: starting one takes five seconds."""

    def _split_scope(self, nodeid: str) -> str:
        module: str = super()._split_scope(nodeid)
        return BROWSER if module.startswith(BROWSER) else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Share the tests out by modules, where that is asked for."""
    return OneBrowser(config, log) if config.option.dist == "loadfile" else None


def _keep_files_in_memory() -> None:
    """Have databases, and whatever else is temporary, in /dev/shm where that has room.

    ext4 does not give an inode again within five seconds, and looks at all that were deleted meanwhile. Tests
    make and delete many thousands. Source: recently_deleted in Linux's fs/ext4/ialloc.c.
    """
    is_there = "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK)
    if is_there and shutil.disk_usage(MEMORY).free >= MIN_MEMORY_BYTES:
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None


def pytest_report_header() -> list[str]:
    """Print that seed, and which server the tests run on."""
    return [
        f"chaos seed: {os.environ['CHAOS_SEED']} (CHAOS_SEED in the environment repeats it)",
        f"PostgreSQL {major_version(servers.programs())}, settings: {servers.wanted_settings()}",
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what no server can change, and what no pooler can, where these are tried."""
    for is_tried, is_changed in (
        (config.getoption("--of-the-server"), _is_of_the_server),
        (os.environ.get("TEST_POOLER"), _goes_through_the_pooler),
    ):
        if is_tried:
            config.hook.pytest_deselected(items=[item for item in items if not is_changed(item)])
            items[:] = filter(is_changed, items)


def pytest_collection() -> None:
    """Make eight thousand tests without looking for garbage among them again and again."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave them out of every later collection of garbage."""
    gc.enable()
    gc.collect()
    gc.freeze()


def _is_of_the_server(item: pytest.Item) -> bool:
    """Tell whether a test, or another one of its module, asks the server that tests/servers names."""
    assert isinstance(item, pytest.Function)
    named = vars(item.module).values()
    homes = (str(getattr(value, "__module__", getattr(value, "__name__", ""))) for value in named)
    if "postgres" in item.fixturenames or item.get_closest_marker("of_the_server"):
        return True
    return any(home.startswith("tests.servers") for home in homes)


def _goes_through_the_pooler(item: pytest.Item) -> bool:
    """Tell whether a test's database is had through a pooler, where one is asked for."""
    assert isinstance(item, pytest.Function)
    return "pooler" in item.fixturenames


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do without a test that needs what is not there."""
    for mark in item.iter_markers("needs"):
        is_there, what = mark.args
        if not is_there:
            lacking(what)
    if item.get_closest_marker("scaled_time") and LIBRARY is None:
        lacking("libfaketime is missing: apt-get install libfaketime")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests were skipped, a line for each reason, whatever -r asks for."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """Start the server that tests/servers names, with its settings."""
    with template_server() as server:
        yield server


@pytest.fixture(scope="session")
def schema_only(postgres: EmbeddedPostgres) -> Database:
    """Give the template itself, for tests that write nothing and leave no connection behind."""
    return Database(postgres, TEMPLATE)


@pytest.fixture(scope="session")
def pooler(postgres: EmbeddedPostgres) -> Iterator[Pooler | None]:
    """Start a PgBouncer before the server when TEST_POOLER=transaction asks for it."""
    with pooler_if_asked(postgres.dsn()) as started:
        yield started


@pytest.fixture(scope="session")
def reused(postgres: EmbeddedPostgres) -> Databases:
    """Have migrated databases, which are emptied and used again."""
    return Databases(postgres)


@pytest.fixture(scope="session")
def scaled(postgres: EmbeddedPostgres) -> Iterator[tuple[Mapping[str, str], Databases]]:
    """Start another server, in scaled time; give the variables of what lives in it, and its databases.

    After the one in real time: what both are copies of is made in that.
    """
    with scaled_time() as variables, ExitStack() as stack:
        with living_in(variables):
            server = stack.enter_context(template_server())
        yield variables, Databases(server)


@pytest.fixture
def database(request: pytest.FixtureRequest, pooler: Pooler | None) -> Iterator[Database]:
    """Have a migrated database for one test; in scaled time, with all that the test starts, if it says so."""
    if request.node.get_closest_marker("scaled_time") and pooler is None:  # a pooler lives in real time
        variables, databases = request.getfixturevalue("scaled")
        with living_in(variables), databases.one() as database:
            yield database
    else:
        with request.getfixturevalue("reused").one() as database:
            yield replace(database, pooler=pooler)


@pytest.fixture(scope="module")
def shared_database(reused: Databases, pooler: Pooler | None) -> Iterator[Database]:
    """Have a migrated database for all tests of a module that leave each other alone."""
    with reused.one() as database:
        yield replace(database, pooler=pooler)
