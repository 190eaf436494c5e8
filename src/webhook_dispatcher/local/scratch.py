"""Temporary folders that do not pile up: what a killed process left behind, the next one removes."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HELD = "held"


@contextmanager
def scratch_dir(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a private folder and remove it at the end; first remove those that nobody holds any more."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in place.glob(f"{prefix}*"):
        _remove_if_abandoned(folder)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    # Held for as long as the process lives; the kernel releases it when that is killed.
    with (folder / HELD).open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_if_abandoned(folder: Path) -> None:
    try:
        if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
            return
        with (folder / HELD).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        # In use, of another user, or just being made or removed by another process.
        return
