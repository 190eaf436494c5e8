"""The documents say what the code says: tables, snippets, the tree of files, links, codes."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

from docs.reference import metrics_table
from docs.shown_files import on_page_markdown
from webhook_dispatcher.cli.failures import EXIT_CODES
from webhook_dispatcher.domain.command import COMMANDS, Code
from webhook_dispatcher.domain.event import EVENT_TYPES, FailedReason, State
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.fields import variable
from webhook_dispatcher.storage.schema import SCHEMA_VERSION

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS_PAGE = (ROOT / "docs" / "operate" / "commands.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RECIPES = (
    "A metric",
    "A setting",
    "An event type",
    "An operation of the Partner API",
    "A control command",
    "A page of the console",
    "A text",
    "A fact of an attempt",
    "A statement",
    "A migration",
)
VERIFYING = (ROOT / "docs" / "verify" / "README.md").read_text(encoding="utf-8")
SNIPPETS = [path for path in sorted((ROOT / "docs" / "verify").iterdir()) if path.suffix not in ("", ".md")]
CONTRACT = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
INTERNALS = ROOT / "docs" / "internals"
GUARANTEES = (INTERNALS / "guarantees.md").read_text(encoding="utf-8")
PROMISES = "".join((INTERNALS / name).read_text(encoding="utf-8") for name in ("promises.md", "changes.md"))
DECISIONS = ROOT / "docs" / "adr"
SCHEMA = "3. SQL: schema `webhook`, in the charge service's own database"
PERFORMANCE = (ROOT / "docs" / "evaluate" / "performance.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
ROLES = (ROOT / "migrations" / "roles.sql").read_text(encoding="utf-8")
SETTINGS = {variable(name) for name in Settings.model_fields}
MADE_UP = {"WEBHOOK_X", "WEBHOOK_X_FILE", "WEBHOOK_URL"}
"""Any setting that may stand in a file, and the address in an example for merchants."""
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(path for name in ("docs", "benchmarks", "lab") for path in (ROOT / name).rglob("*.md")),
    ]
)

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_TITLED = r"\[([^\]]+)\]\(([^)]+)\)"
_INVARIANT = re.compile(r"\bI([1-9]\d?)\b")
_DESCRIBED = re.compile(r"^### (.+)\n((?:(?!^###).*\n)*)", re.MULTILINE)
# Keys are derived from a text that begins with the program's name, too.
_COMMAND = re.compile(
    r"(?:\$ |`)webhook-dispatcher (?!signing secret)((?:[a-z][a-z-]*)(?: [a-z][a-z-]*\b(?!=))?)([^`#|\n]*)"
)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def section(document: str, heading: str) -> str:
    """Return one section of a document."""
    return document.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def without_code(text: str) -> str:
    return _FENCED.sub("", text)


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda path: path.name)
def test_a_verifier_is_shown_as_the_tests_run_it_and_linked(snippet: Path) -> None:
    assert f"\n{snippet.read_text(encoding='utf-8')}```\n" in on_page_markdown(VERIFYING)
    assert snippet.name in _LINK.findall(VERIFYING)
    assert snippet.relative_to(ROOT).as_posix() in _LINK.findall(README)


def end_to_end(server: str) -> tuple[float, float]:
    """Return the lowest and the highest events a second of a server, of the first table of performance.md."""
    [cell] = re.findall(rf"^\| {server}[^|]*\| ([^|]+) \|", PERFORMANCE, re.MULTILINE)[:1]
    rates = [float(rate.replace(",", "")) for rate in cell.split(", ")]
    return min(rates), max(rates)


@pytest.mark.parametrize("rival", ["Outpost", "Svix"])
def test_the_ratios_of_the_readme_were_measured(rival: str) -> None:
    [said] = re.findall(rf"([\d.]+) to ([\d.]+) times [^.\d]*of {rival}", " ".join(README.split()))
    (least, most), (their_least, their_most) = end_to_end("webhook-dispatcher"), end_to_end(rival)
    assert tuple(map(float, said)) == (round(least / their_most, 1), round(most / their_least, 1))


def test_the_sizes_of_logs_are_what_scaling_has_measured() -> None:
    scaling = (ROOT / "docs" / "operate" / "scaling.md").read_text(encoding="utf-8")
    rows = [
        int(size.replace(",", ""))
        for size in re.findall(r"`\w+_log` with its indexes, bytes \| ([\d,]+)", scaling)
    ]
    sizing = (ROOT / "docs" / "operate" / "sizing.md").read_text(encoding="utf-8")
    [rates] = re.findall(r"all day \| idle \| (.*) \|", sizing)
    [sizes] = re.findall(r"a day \| \| (\d.*) \|\n\| the same", sizing)
    units = {"GB": 1e9, "TB": 1e12}
    for rate, size in zip(rates.split(" | "), sizes.split(" | "), strict=True):
        number, unit = size.split()
        assert float(number) * units[unit] == pytest.approx(
            int(rate.replace(",", "")) * 86_400 * sum(rows), rel=0.02
        )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    broken = []
    for link in _LINK.findall(without_code(document.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if path.startswith(("https://", "http://")):
            continue
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_settings_metrics_roles_and_commands_that_a_document_names_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for name in set(re.findall(r"\bWEBHOOK_[A-Z_]*[A-Z]\b(?!_)", text)) - MADE_UP:
        assert {name, name.removesuffix("_FILE")} & SETTINGS, f"{name}: no such setting"
    names = set(re.findall(r"\bwebhook_[a-z_]*[a-z]\b(?!_)", text))
    assert names <= {*re.findall(r"'(webhook_\w+)'", ROLES), *re.findall(r"`(webhook_\w+)", REFERENCE)}
    commands = dict(_DESCRIBED.findall(section(REFERENCE, "Command line")))
    for words, options in _COMMAND.findall(text):
        command = words if words in commands else words.split()[0]
        assert command in commands, f"{words}: no such command"
        for option in re.findall(r"(?<=\s)--[a-z-]+", options):
            assert option in commands[command], f"{command} has no {option}"


def test_the_index_lists_every_decision_by_its_title() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^- (\d{4}): (.*)$", index, re.MULTILINE)
    titles = {
        file.name: file.read_text(encoding="utf-8").partition("\n")[0] for file in DECISIONS.glob("0*.md")
    }
    listed = {
        name: f"# {number}: {title}" for number, row in rows for title, name in re.findall(_TITLED, row)
    }
    assert listed == titles
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))


def test_every_invariant_that_is_named_is_stated_with_tests_that_exist() -> None:
    rows = re.findall(r"^\| I(\d+) \| (.*) \| (.*) \| (.*) \|$", GUARANTEES, re.MULTILINE)
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    assert all("test_" in shown for *_, shown in rows)
    code = [file for part in ("src", "tests") for file in (ROOT / part).rglob("*.py")]
    named = {number for file in code for number in _INVARIANT.findall(file.read_text(encoding="utf-8"))}
    assert "10" in named
    assert named <= {number for number, *_ in rows}
    assert set(re.findall(r"\btest_\w+\.py\b", GUARANTEES + PROMISES)) <= {file.name for file in code}


def test_ci_runs_on_every_python_that_is_declared_and_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [name.split(" :: ")[-1] for name in project["classifiers"] if " :: Python :: 3." in name]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    [matrix] = re.findall(r"^ +python: (\[.*\])$", workflow, re.MULTILINE)
    assert json.loads(matrix) == declared
    assert all(python in README for python in declared)


def test_control_commands_and_codes_of_the_contract_are_the_codes() -> None:
    rows = section(CONTRACT, SCHEMA).partition("\n| command |")[2].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    assert [name for cell in cells for name in re.findall(r"`(\w+)`", cell)] == [*COMMANDS]
    shown = re.findall(r"VALUES \('(\w+)'", COMMANDS_PAGE)
    assert {*shown} <= {*COMMANDS}
    assert {int(number) for number in re.findall(r"`(-14\d{3})`", CONTRACT)} == {*map(int, Code)}


def test_words_of_the_contract_are_the_codes() -> None:
    for word in (*EVENT_TYPES, *State, *FailedReason, *Outcome):
        assert re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", CONTRACT), word


def test_settings_and_metrics_of_the_contract_are_the_codes() -> None:
    settings, metrics = CONTRACT.partition("\n## 5.")[2].partition("\n## 8.")[0].split("\n## 6.")
    rows = [line.split("|")[1] for line in settings.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    assert named == {name.upper() for name in Settings.model_fields}, "docs/contract.md, section 5"
    of_the_code = set(re.findall(r"^\| `(\w+)`", metrics_table(), re.MULTILINE))
    assert set(re.findall(r"`(webhook_\w+)", metrics)) == of_the_code, "docs/contract.md, section 6"


def test_exit_codes_of_the_contract_are_the_codes() -> None:
    text = " ".join(CONTRACT.split())
    named = ", ".join(f"{code} {meaning.replace(',', '')}" for code, meaning in EXIT_CODES.items())
    assert f"Exit codes: {named}." in text


def constants(path: Path) -> list[str]:
    """Return a module's texts, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return [node.value for node in found if isinstance(node.value, str)]


def test_programs_name_pages_by_titles_that_are_there() -> None:
    """Who installed a wheel has no files of docs."""
    package = ROOT / "src" / "webhook_dispatcher"
    said = "\n".join(text for path in sorted(package.rglob("*.py")) for text in constants(path))
    said += (package / "words" / "words.pot").read_text(encoding="utf-8").replace('\\"', '"')
    assert re.findall(r".*\b(?:docs|runbooks)/.*", said) == []
    named = set(re.findall(r'"([^"\n]+)" in the documentation', said))
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert len(named) > 8
    assert named - set(re.findall(r"^#+ (.+)$", pages, re.MULTILINE)) == set()


def test_sections_of_the_contract_keep_their_numbers() -> None:
    assert re.findall(r"^## (\d+)\. ", CONTRACT, re.MULTILINE) == [*"12345678"]
    assert re.findall(r"^(\d+)\. ", CONTRACT, re.MULTILINE) == [*"123456789", "10"]


def files_to_change(recipe: str) -> int:
    """Count the files in front of each step's colon or semicolon: one at least, but for what is generated."""
    found = 0
    for step in re.split(r"^\d\. ", recipe, flags=re.MULTILINE)[1:]:
        paths = re.findall(r"`([\w.-]+(?:/[\w.-]+)+|[A-Z]+\.md)`", re.split(r"[:;]|\n\n", step)[0])
        found += 0 if "docs/reference.md" in paths else max(1, len(paths))
    return found


def test_files_that_the_recipes_name_exist_and_are_eight_at_most() -> None:
    recipes = CONTRIBUTING.partition("\n## Recipes\n")[2].partition("\n## ")[0].split("\n### ")[1:]
    assert [recipe.partition("\n")[0] for recipe in recipes] == [*RECIPES]
    for recipe in recipes:
        assert 3 <= files_to_change(recipe) <= 8, recipe
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*|[A-Z]+\.md|pyproject\.toml)`", CONTRIBUTING))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_fixtures_that_contributing_names_exist() -> None:
    named = {*re.findall(r"fixture `(\w+)`", CONTRIBUTING), *re.findall(r"`(\w+)\.do\(", CONTRIBUTING)}
    sources = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").glob("*/conftest.py"))
    assert len(named) >= 2
    assert [
        name for name in named if not re.search(rf"^(?:async )?def {name}\(", sources, re.MULTILINE)
    ] == []


def test_the_changelog_names_the_version_of_the_schema() -> None:
    assert f"The schema is of version {SCHEMA_VERSION}:" in CHANGELOG


def test_tests_that_hold_attacks_are_there() -> None:
    """In docs/security/attacks.md a name stands for a test, or for all of a file."""
    attacks = (ROOT / "docs" / "security" / "attacks.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:[\w/]+/)?(test_\w+(?:\.py)?)`", attacks))
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    there = {
        name for text in files.values() for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.M)
    }
    assert len(named) > 40
    assert named - there - set(files) == set()
