"""Every module that tests are built with says what for, and those in tests/README.md have what it offers."""

import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]


def rows() -> Iterator[tuple[list[str], list[Path]]]:
    """Give for each row of the table the names to take and the modules that have them."""
    _, _, section = (
        (TESTS / "README.md").read_text(encoding="utf-8").partition("## What to build a test with\n")
    )
    for line in section.partition("\n## ")[0].splitlines():
        cells = line.split(" | ")
        if files := re.findall(r"`([\w/]+\.py)`", cells[-1]):
            folder = Path(files[0]).parent
            yield re.findall(r"`(\w+)`", cells[-2]), [Path(f) if "/" in f else folder / f for f in files]


def test_every_module_that_tests_are_built_with_says_in_its_first_line_what_for() -> None:
    modules = [
        path
        for path in TESTS.rglob("*.py")
        if not path.name.startswith(("test_", "__")) and path.name != "conftest.py"
        if "node_modules" not in path.parts
    ]
    assert len(modules) > 60
    assert [path for path in modules if not re.match(r'""".+ .+', path.read_text(encoding="utf-8"))] == []


def test_what_the_table_offers_is_in_those_modules() -> None:
    conftests = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("conftest.py"))
    for names, files in rows():
        text = conftests + "".join((TESTS / file).read_text(encoding="utf-8") for file in files)
        assert [
            name for name in names if not re.search(rf"^(async )?(def |class )?{name}\b", text, re.MULTILINE)
        ] == []


def test_what_is_slow_names_a_test_that_is_not_and_fails_for_the_same_reason() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    kept = [name for text in texts.values() for name in re.findall(r'mark\.slow\(\s*"([^"]*)"', text)]
    assert kept
    assert sum(text.count("mark.slow") for text in texts.values()) == len(kept) + 1, "each says what is kept"
    for name in kept:
        file, _, function = name.partition("::")
        assert f"def {function}(" in texts[TESTS / file], name
