import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.local import postgres as postgres_module
from webhook_dispatcher.local.binaries import initdb_options
from webhook_dispatcher.local.confinement import NOBODY, UNSHARE, Confinement
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.local.scratch import scratch_dir

IS_ROOT = os.geteuid() == 0
DEADLINE = MAX_WAIT

HOLD = """
import signal, sys
from pathlib import Path
from webhook_dispatcher.local.confinement import Confinement
from webhook_dispatcher.local.postgres import EmbeddedPostgres
name, prefix, user = sys.argv[2], tuple(sys.argv[4:]), int(sys.argv[3]) or None
confinement = Confinement(name, prefix, user) if name else None
with EmbeddedPostgres(Path(sys.argv[1]), durable=False, confinement=confinement) as postgres:
    print(postgres.pid, flush=True)
    signal.pause()
"""


def has_user_namespaces() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, timeout=DEADLINE).returncode == 0
    except OSError:
        return False


def confinements() -> list[object]:
    """Each way to start that this machine allows; None lets EmbeddedPostgres choose."""
    root_only = pytest.mark.skipif(not IS_ROOT, reason="only root needs to be confined")
    no_namespaces = pytest.mark.skipif(
        not has_user_namespaces(), reason="user namespaces are not allowed here"
    )
    return [
        pytest.param(None, id="chosen"),
        pytest.param(Confinement("namespace", UNSHARE), id="namespace", marks=[root_only, no_namespaces]),
        pytest.param(Confinement("nobody", user=NOBODY), id="nobody", marks=[root_only]),
    ]


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own: its parents are private, and the user nobody could not pass.
    made = Path(tempfile.mkdtemp(prefix="webhook-test-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


def quick(folder: Path, **options: object) -> EmbeddedPostgres:
    return EmbeddedPostgres(folder, durable=False, **options)  # type: ignore[arg-type]


def ask(postgres: EmbeddedPostgres, query: str) -> object:
    async def asked() -> object:
        connection = await asyncpg.connect(postgres.dsn())
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(asked())


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_was_written_is_there_after_a_restart(folder: Path) -> None:
    with quick(folder) as postgres:
        ask(postgres, "CREATE TABLE kept (number integer)")
        ask(postgres, "INSERT INTO kept VALUES (7)")
        pid = postgres.pid
    assert pid is not None
    assert not is_alive(pid)
    with quick(folder) as postgres:
        assert ask(postgres, "SELECT number FROM kept") == 7


@pytest.mark.parametrize("confinement", confinements())
def test_the_server_dies_with_a_killed_parent_and_its_data_survive(
    folder: Path, confinement: Confinement | None
) -> None:
    with quick(folder, confinement=confinement) as postgres:
        ask(postgres, "CREATE TABLE kept (number integer)")
    arguments = ["", "0"]
    if confinement is not None:
        arguments = [confinement.name, str(confinement.user or 0), *confinement.prefix]
    with subprocess.Popen([sys.executable, "-c", HOLD, folder, *arguments], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    deadline = time.monotonic() + DEADLINE
    while is_alive(pid):
        assert time.monotonic() < deadline, "the server outlives its parent"
        time.sleep(0.01)
    with quick(folder, confinement=confinement) as postgres:
        assert ask(postgres, "SELECT count(*) FROM kept") == 0


def test_a_successor_waits_for_the_server_of_a_killed_parent(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, folder, "", "0"], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        with quick(folder) as postgres:
            assert ask(postgres, "SELECT 1") == 1


def test_the_database_is_private_and_sorts_the_same_everywhere(folder: Path) -> None:
    with quick(folder, options={"work_mem": "5MB"}) as postgres:
        assert ask(postgres, "SHOW listen_addresses") == ""
        for name in ("socket", "postgres"):
            assert (folder / name).stat().st_mode & 0o777 == 0o700
        assert ask(postgres, "SHOW server_encoding") == "UTF8"
        assert ask(postgres, "SELECT datlocprovider FROM pg_database LIMIT 1") == b"b"
        assert ask(postgres, "SELECT 'a' < 'B'") is False
        assert (ask(postgres, "SHOW fsync"), ask(postgres, "SHOW work_mem")) == ("off", "5MB")


def test_versions_before_17_have_no_builtin_collation() -> None:
    assert not any("builtin" in option for option in initdb_options(16))
    assert "--builtin-locale=C.UTF-8" in initdb_options(17)


def test_a_durable_database_waits_for_the_disk(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=True) as postgres:
        assert ask(postgres, "SHOW fsync") == "on"


def test_a_folder_serves_one_process_at_a_time(folder: Path) -> None:
    with quick(folder) as postgres:
        with pytest.raises(ConfigurationError, match="in use by another webhook-dispatcher"):
            quick(folder).start()
        assert ask(postgres, "SELECT 1") == 1


def test_a_server_that_somebody_else_started_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "MAX_PREDECESSOR_SECONDS", 0.1)
    with quick(folder) as postgres:
        other = EmbeddedPostgres(folder / "other", durable=False)
        (folder / "other").mkdir()
        (folder / "other" / "postgres").symlink_to(folder / "postgres")
        with pytest.raises(ConfigurationError, match=f"in use by another Postgres \\(process {postgres.pid}"):
            other.start()
        assert ask(postgres, "SELECT 1") == 1


def test_a_pid_file_left_behind_whose_pid_is_someone_elses_is_dropped(folder: Path) -> None:
    with quick(folder):
        left_behind = (folder / "postgres" / "postmaster.pid").read_text()
    # Not our own pid: Postgres itself knows that its parent is no rival.
    with subprocess.Popen(["sleep", "60"]) as stranger:
        lines = [str(stranger.pid), *left_behind.splitlines()[1:], ""]
        (folder / "postgres" / "postmaster.pid").write_text("\n".join(lines))
        try:
            with quick(folder) as postgres:
                assert ask(postgres, "SELECT 1") == 1
        finally:
            stranger.kill()


def test_a_database_of_another_version_is_refused(folder: Path) -> None:
    (folder / "postgres").mkdir()
    (folder / "postgres" / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(ConfigurationError, match=r"PostgreSQL 9\.6, and this is \d+: set WEBHOOK_DATA_DIR"):
        quick(folder).start()


def test_an_initdb_cut_short_is_begun_anew(folder: Path) -> None:
    (folder / "postgres.draft").mkdir()
    (folder / "postgres.draft" / "PG_VERSION").write_text("18\n")
    with quick(folder) as postgres:
        assert ask(postgres, "SELECT 1") == 1


def test_a_long_data_folder_gets_its_socket_elsewhere(folder: Path) -> None:
    far = folder / ("long" * 25)
    with quick(far) as postgres:
        assert ask(postgres, "SELECT 1") == 1
        distant = Path(postgres.dsn().partition("host=")[2].partition("&")[0].replace("%2F", "/"))
        assert distant.stat().st_mode & 0o777 == 0o700
        assert folder not in distant.parents
    assert not distant.exists()


def test_a_server_that_does_not_start_says_why(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)did not start; its log ends.*shared_buffers"):
        quick(folder, options={"shared_buffers": "nonsense"}).start()


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot keep a database in .*/file/data"):
        quick(folder / "file" / "data").start()


@pytest.mark.skipif(not IS_ROOT, reason="only root falls back to nobody")
def test_nobody_is_told_which_folder_is_in_the_way(folder: Path) -> None:
    (folder / "private").mkdir(mode=0o700)
    refusal = f"nobody cannot pass through {folder}/private: set WEBHOOK_DATA_DIR"
    with pytest.raises(ConfigurationError, match=refusal):
        quick(folder / "private" / "data", confinement=Confinement("nobody", user=NOBODY)).start()


def test_the_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'webhook-dispatcher\[local\]'"):
        quick(folder).start()


def test_it_is_not_started_from_another_thread(folder: Path) -> None:
    caught: list[BaseException] = []

    def start() -> None:
        try:
            quick(folder).start()
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(DEADLINE)
    assert "main thread" in str(caught)


def test_the_next_scratch_folder_sweeps_up_what_a_killed_process_left(folder: Path) -> None:
    hold = (
        "import signal, sys\nfrom pathlib import Path\n"
        "from webhook_dispatcher.local.scratch import scratch_dir\n"
        "with scratch_dir('s-', Path(sys.argv[1])) as made:\n"
        "    print(made, flush=True)\n    signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", hold, folder], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            left = Path(process.stdout.readline().strip())
            with scratch_dir("s-", folder) as mine:
                assert left.is_dir()
            assert not mine.exists()
        finally:
            process.kill()
    with scratch_dir("s-", folder) as mine:
        assert list(folder.iterdir()) == [mine]
