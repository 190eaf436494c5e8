"""The path of one delivered event through the product, function by function.

Storage and the network are in memory, the clock stands still, and each loop's steps are made by hand: what is
seen is what an event needs, and nothing of how loops wait. Functions of the product count, each by its module
and name; comprehensions, lambdas and generated methods do not, nor does a coroutine that is resumed.

    python -m tests.unit.event_path
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import webhook_dispatcher
from tests.unit.builders import make_event
from tests.unit.fakes.database import is_delivered
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.loop_turns import quiet
from webhook_dispatcher.domain.verdict import Answer

_PRODUCT = Path(webhook_dispatcher.__file__).parent


@dataclass
class EventPath:
    """The product's functions in the order in which they were called: (module, name within it)."""

    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def functions(self) -> list[tuple[str, str]]:
        """Return each function once, in the order of the first calls."""
        return list(dict.fromkeys(self.calls))

    @property
    def modules(self) -> list[str]:
        """Return each module once."""
        return list(dict.fromkeys(module for module, _ in self.calls))

    @property
    def changes(self) -> int:
        """Return how often a call went to another module than the call before it."""
        return len(list(groupby(module for module, _ in self.calls))) - 1


@contextmanager
def _recording(path: EventPath) -> Iterator[None]:
    seen: set[FrameType] = set()  # kept alive, so that none is taken for one that was resumed

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or frame in seen or code.co_name.startswith("<"):
            return
        seen.add(frame)
        file = Path(code.co_filename)
        if file.is_relative_to(_PRODUCT):
            module = file.relative_to(_PRODUCT).with_suffix("").as_posix().replace("/", ".")
            path.calls.append((module, code.co_qualname))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def follow_one_event() -> EventPath:
    """Deliver an event to a merchant who has accepted one before; return its path, to its released lane."""
    harness, path = DispatcherHarness(), EventPath()
    async with harness.open("m") as group:
        harness.database.insert(make_event(1))
        await harness.rounds(group)
        harness.database.insert(make_event(2))
        harness.sender.answers.append(Answer(200))
        with _recording(path):
            await harness.dispatcher.step(group)
            await quiet()
            await harness.write()
        assert is_delivered(harness.database, 2)
        assert harness.dispatcher.lanes_leased == 0
    return path


def main() -> None:
    """Print the path and its size."""
    path = asyncio.run(follow_one_event())
    for module, names in groupby(path.calls, lambda call: call[0]):
        print(f"{module:28} {' '.join(name for _, name in names)}")
    print(f"\n{len(path.functions)} functions, {len(path.modules)} modules, {path.changes} changes of module")


if __name__ == "__main__":
    main()
