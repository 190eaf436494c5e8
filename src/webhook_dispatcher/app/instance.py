"""What a dead process held in the database is released at once, and not when its lease ends.

Each process keeps a file, locked for as long as it lives: the kernel frees the lock, however it ends. A file
that nobody locks is a dead one's. A broken connection and a silence do not say as much: who was stopped or
cut off may have a request under way. A copy proves nothing, so each file names itself and its kernel.
"""

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import structlog

from webhook_dispatcher.dispatch.pace import Interval
from webhook_dispatcher.domain.claim import SweptLane
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.storage.claims import PostgresClaims

RELEASE_INTERVAL = Interval(0.5)
SUFFIX = ".owner"
MAX_SIZE = 4_096
"""Bytes of a file that are read."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What passes: whoever starts on a full disk makes its file when there is room."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_log = structlog.get_logger()


class Instance:
    """A process's file in a folder, held while entered, and those of dead ones beside it.

    owner: as leases name the process. database: which one it serves; files of others are left alone.
    """

    def __init__(self, folder: Path, owner: str, database: str) -> None:
        self._folder = folder
        self._owner = owner
        self._database = database
        self._path = folder / (owner.rpartition("/")[2] + SUFFIX)
        self._file: int | None = None
        self._found_empty: set[Path] = set()
        self._trouble = ""

    def __enter__(self) -> Self:
        """Make the file, later where the disk is full; ConfigurationError where that cannot be."""
        try:
            self._hold()
        except OSError as error:
            if error.errno in FULL:
                self._tell(error)
                return self
            raise ConfigurationError(
                f"WEBHOOK_INSTANCE_DIR: no file can be kept in {self._folder}: {error.strerror}",
                remedy="name a folder that this user may write to, or leave it out",
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the file to whoever comes next: what could not be released is released then."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _hold(self) -> None:
        """Make the file, at first and when somebody has removed it."""
        with suppress(FileNotFoundError):
            if self._file is not None and os.path.samestat(os.fstat(self._file), self._path.lstat()):
                return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.__exit__()
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Whoever locks it before us finds it empty, and leaves it.
            fcntl.flock(self._file, fcntl.LOCK_EX)
            os.write(self._file, json.dumps(self._content(self._file, self._owner)).encode())
        except OSError:
            self.__exit__()
            self._path.unlink(missing_ok=True)
            raise

    def _content(self, file: int, owner: str) -> dict[str, object]:
        """Return what stands in a file of this folder; a copy of it is another file."""
        status = os.fstat(file)
        place = [status.st_dev, status.st_ino]
        return {"owner": owner, "database": self._database, "kernel": _kernel(), "file": place}

    async def release_dead(self, claims: PostgresClaims, notice: Callable[[SweptLane], object]) -> None:
        """Release what each dead process held, until two looks find nothing of it; raises StorageError.

        Two, since a statement may have been under way when it died, and a lane may be locked for a moment.

        notice: learns what released lanes owe.
        """
        try:
            self._hold()
            for path in self._folder.glob(f"*{SUFFIX}"):
                with self._taken(path) as owner:
                    if owner is None:
                        continue
                    released = await claims.release_all_of(owner)
                    for lane in released.lanes:
                        notice(lane)
                    lanes, retries = len(released.lanes), released.retries
                    if lanes or retries:
                        _log.warning("dead.released", owner=owner, lanes=lanes, retries=retries)
                    elif path in self._found_empty:
                        self._found_empty.remove(path)
                        path.unlink(missing_ok=True)
                    else:
                        self._found_empty.add(path)
            self._trouble = ""
        except OSError as error:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        if self._trouble != str(error):
            self._trouble = str(error)
            _log.warning("instance.unseen", folder=str(self._folder), error=self._trouble)

    @contextmanager
    def _taken(self, path: Path) -> Iterator[str | None]:
        """Lock a file and tell whose it was; None where that one lives, or the file proves nothing."""
        try:
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            yield None
            return
        try:
            yield self._read(file)
        finally:
            os.close(file)

    def _read(self, file: int) -> str | None:
        status = os.fstat(file)
        if not (stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and _kernel()):
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = json.loads(os.read(file, MAX_SIZE))
            owner = str(content["owner"])
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return owner if content == self._content(file, owner) else None


def _kernel() -> str:
    """Name the kernel that runs, another after each start; where it has no name, no file proves anything."""
    return BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
