"""What is installed to run it is a part of what was tested, and has no tools of development."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("requirements.lock", "requirements.local.lock", "requirements.build.lock")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked(path: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return each package's version and hashes."""
    text = (ROOT / path).read_text(encoding="utf-8")
    parts = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    return {
        part.partition("==")[0]: (
            re.split(r"==|[ ;\\]", part)[1].strip(),
            frozenset(re.findall(r"sha256:\w+", part)),
        )
        for part in parts
    }


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[>=]", requirement)[0] for requirement in requirements}


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_what_is_imported_is_declared() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "migrations").rglob("*.py")]
    modules = {name.partition(".")[0] for file in files for name in imported(file)}
    distributions = packages_distributions()
    used = {
        re.sub("[._-]+", "-", distributions[module][0]).lower()
        for module in modules - sys.stdlib_module_names - {"webhook_dispatcher"}
    }
    extras = PROJECT["project"]["optional-dependencies"]
    build = names(PROJECT["build-system"]["requires"])  # a checkout's version is asked as the wheel's is
    assert used <= names(PROJECT["project"]["dependencies"]) | names(extras["local"]) | build


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_locked_as_the_whole_is(part: str) -> None:
    found = locked(f"deploy/{part}")
    assert found
    assert found.items() <= locked("requirements.lock").items()
    assert all(hashes for _, hashes in found.values())


def test_each_part_has_what_it_is_for_and_no_tools_of_development() -> None:
    needed = names(PROJECT["project"]["dependencies"])
    extras = PROJECT["project"]["optional-dependencies"]
    build = names(PROJECT["build-system"]["requires"])
    tools = names(extras["dev"]) - build
    daemon, local, built = (set(locked(f"deploy/{part}")) for part in PARTS)
    assert needed <= daemon <= local
    assert names(extras["local"]) <= local - daemon
    assert build <= built
    assert not tools & (local | built)


def test_the_image_and_the_demo_install_the_parts_alone() -> None:
    image = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    assert set(re.findall(r"--requirement (\S+)", image)) == {
        "deploy/requirements.lock",
        "deploy/requirements.build.lock",
    }
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "run"):
        assert re.search(rf"^{target}: \$\(LOCAL\) ", makefile, re.MULTILINE)
