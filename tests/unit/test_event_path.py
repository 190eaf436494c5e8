"""How far an event has to go through the product, and that the documents tell the way."""

import re
from pathlib import Path

from tests.unit.event_path import follow_one_event

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
MAX_FUNCTIONS, MAX_MODULES, MAX_CHANGES = 60, 12, 50


async def test_a_delivered_event_takes_few_functions_modules_and_changes_of_module() -> None:
    path = await follow_one_event()
    assert len(path.functions) <= MAX_FUNCTIONS, path.functions
    assert len(path.modules) <= MAX_MODULES, path.modules
    assert path.changes <= MAX_CHANGES


async def test_the_path_of_one_event_is_told_by_the_names_that_it_takes() -> None:
    path = await follow_one_event()
    told = ARCHITECTURE.read_text(encoding="utf-8").partition("## The path of one event\n")[2]
    names = re.findall(r"`(\w+(?:\.\w+)*)\(\)`", told.partition("\n## ")[0])
    called = [f"{module.rpartition('.')[2]}.{name.rpartition('.')[2]}" for module, name in path.functions]
    assert set(names) == set(called), "tell each function of the path, and no other"
    assert [*dict.fromkeys(names)] == [*dict.fromkeys(called)], "tell them in the order of the first calls"
