"""As whom Postgres runs: it refuses to run as root.

An ordinary user runs it directly. Root runs it, best first:
- in a user namespace of its own, where root appears as `nobody`: works even below a private folder;
- as the real `nobody`, with a copy of the programs and a data folder that `nobody` can reach.
"""

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from webhook_dispatcher.domain.errors import ConfigurationError

NOBODY = 65534
PR_SET_PDEATHSIG = 1
UNSHARE = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "--")


@dataclass(frozen=True, slots=True)
class Confinement:
    """How to start the programs: a prefix to the command, or a change of user.

    user: None keeps the caller's.
    """

    name: str
    prefix: tuple[str, ...] = ()
    user: int | None = None

    @property
    def owner(self) -> int:
        """Who must own the data, in the eyes of this process."""
        return os.geteuid() if self.user is None else self.user

    def spawn(
        self, command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a program that dies with the calling thread, and that Ctrl-C does not reach."""
        return subprocess.Popen(
            [*self.prefix, *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            # After the change of user: that would clear the signal. Exec in `unshare` keeps it.
            preexec_fn=death_signal(os.getpid()),
        )

    def reach(self, data_dir: Path) -> None:
        """Let the user that runs Postgres pass through the data folder; say so if it cannot get there."""
        if self.user is None:
            return
        mode = data_dir.stat().st_mode & 0o777
        if not mode & 0o001:
            os.chown(data_dir, -1, self.user)
            data_dir.chmod(mode | 0o010)
        obstacle = _obstacle(data_dir)
        if obstacle is not None:
            raise ConfigurationError(
                f"Postgres does not run as root, and the user nobody cannot pass through {obstacle}: "
                "set WEBHOOK_DATA_DIR to a folder it can reach, or start this as an ordinary user"
            )

    def own(self, folder: Path) -> None:
        """Hand a folder and all in it over, if it was made under another confinement."""
        if os.geteuid() != 0 or folder.stat().st_uid == self.owner:
            return
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.owner, self.owner, follow_symlinks=False)

    def programs(self, bin_dir: Path, data_dir: Path) -> Path:
        """Return a folder of programs that can be run: a private copy where the original is out of reach."""
        if self.user is None or _obstacle(bin_dir / "postgres") is None:
            return bin_dir
        package, site = bin_dir.parents[1], bin_dir.parents[2]
        copy = data_dir / "programs"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(mode=0o700)
        # The programs find their libraries by this path from their own place; see auditwheel's RPATH.
        libraries = site / f"{package.name}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name)
        target = copy / package.name / bin_dir.parent.name
        shutil.copytree(bin_dir.parent, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
        self.own(copy)
        return target / bin_dir.name


def choose(bin_dir: Path) -> Confinement:
    """Find out as whom Postgres can run here."""
    if os.geteuid() != 0:
        return Confinement("direct")
    for confinement in (Confinement("namespace", prefix=UNSHARE), Confinement("nobody", user=NOBODY)):
        # A change of user is tried without the programs: it may need a copy of them.
        program = "true" if confinement.user else str(bin_dir / "postgres")
        if _works(confinement, (program, "--version")):
            return confinement
    raise ConfigurationError(
        "Postgres does not run as root, and neither a user namespace nor a change to the user nobody "
        "is allowed here: start this as an ordinary user, or set WEBHOOK_DATABASE_URL"
    )


def _obstacle(path: Path) -> Path | None:
    """Return a folder on the way to a path that strangers may not pass through."""
    return next((folder for folder in path.resolve().parents if not folder.stat().st_mode & 0o001), None)


def _works(confinement: Confinement, command: Sequence[str]) -> bool:
    with open(os.devnull, "wb") as nowhere:
        try:
            with interrupts_held_back():
                program = confinement.spawn(command, os.environ, nowhere)
            return program.wait(timeout=10) == 0
        except (OSError, subprocess.SubprocessError):
            return False


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait: what is raised while a process forks, in the hooks of Python's modules, is lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def death_signal(parent: int, number: signal.Signals = signal.SIGINT) -> Callable[[], None] | None:
    """Ask the kernel, in the child, for a signal when the parent dies (Linux only)."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "prctl"):
        return None

    def ask() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})  # as inherited, it may be held back
        libc.prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            # The parent died before the request was made.
            os._exit(1)

    return ask
