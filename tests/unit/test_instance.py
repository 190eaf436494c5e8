"""Which files in an instance's folder prove that a process is dead. Source: I2."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from webhook_dispatcher.app import instance
from webhook_dispatcher.app.instance import Instance
from webhook_dispatcher.domain.claim import Released, SweptLane
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.storage.claims import PostgresClaims

OWED = SweptLane("m", 7, True)


class _Held:
    """What owners hold; `release_all_of` of storage.claims."""

    def __init__(self, *owners: str) -> None:
        self._held = set(owners)
        self.asked: list[str] = []

    async def release_all_of(self, owner: str) -> Released:
        self.asked.append(owner)
        if owner not in self._held:
            return Released([], 0)
        self._held.remove(owner)
        return Released([OWED], 1)


async def look(here: Instance, held: _Held) -> list[SweptLane]:
    """Look once, and return what was noticed."""
    noticed: list[SweptLane] = []
    await here.release_dead(cast(PostgresClaims, held), noticed.append)
    return noticed


def names(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def die(folder: Path, owner: str, database: str = "db") -> Path:
    """Leave the file of one that is dead."""
    with Instance(folder, owner, database):
        pass
    return folder / f"{owner.rpartition('/')[2]}.owner"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "instances"


async def test_what_a_dead_one_held_is_released_until_nothing_is_found(folder: Path) -> None:
    left, held = die(folder, "host/1/a"), _Held("host/1/a", "host/3/c")
    with Instance(folder, "host/2/b", "db") as here, Instance(folder, "host/3/c", "db"):
        assert await look(here, held) == [OWED]
        assert await look(here, held) == []
        assert left.name in names(folder), "a statement may have been under way, or a lane locked"
        assert await look(here, held) == []
        assert left.name not in names(folder)
        await look(here, held)
    assert held.asked == ["host/1/a"] * 3


def _other_kernel(path: Path) -> None:
    instance.BOOT_ID = path.with_name("boot_id")
    instance.BOOT_ID.write_text("another")


def _no_kernel(path: Path) -> None:
    instance.BOOT_ID = path / "absent"


def _edit(path: Path, **changed: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def _copied(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.owner"))
    path.unlink()


def _linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "change",
    [
        *(_other_kernel, _no_kernel, _copied, _linked, _piped),
        lambda path: os.truncate(path, 0),
        lambda path: os.truncate(path, 20),
        lambda path: path.write_text("[]"),
        lambda path: _edit(path, owner=None),
        lambda path: _edit(path, database="other"),
        lambda path: os.chown(path, 1, -1),
    ],
)
async def test_file_that_proves_nothing_is_left_alone(
    folder: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "BOOT_ID", instance.BOOT_ID)
    if os.geteuid() and change is not _piped:
        pytest.skip("only root gives files away")
    change(die(folder, "host/1/a"))
    before, held = names(folder), _Held("host/1/a")
    with Instance(folder, "host/2/b", "db") as here:
        await look(here, held)
        assert held.asked == []
        assert before < names(folder)


async def test_file_that_was_removed_is_made_again(folder: Path) -> None:
    with Instance(folder, "host/1/a", "db") as here:
        shutil.rmtree(folder)
        await look(here, _Held())
        held = _Held("host/1/a")
        with Instance(folder, "host/2/b", "db") as other:
            await look(other, held)
            assert held.asked == []
    with Instance(folder, "host/2/c", "db") as other:
        assert await look(other, held) == [OWED]


def test_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="WEBHOOK_INSTANCE_DIR: no file can be kept in"):
        Instance(tmp_path / "file", "host/1/a", "db").__enter__()
