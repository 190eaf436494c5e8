"""Which lines run where a line is used, and which statements use what migrations define."""

import ast
import functools
import re
from collections.abc import Iterable

from lab.mutations.entries import ROOT

Line = tuple[str, int]
"""A file, relative to the tree, and the number of a line."""
FILES = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "src").rglob("*.py"))]
STATEMENTS = "src/webhook_dispatcher/storage/sql/"
STATEMENT = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
MAX_STEPS = 3
"""How often a constant that is made of another one is followed."""
_PART = re.compile(r"^(?=(?:CREATE|ALTER|GRANT|COMMENT)\b)", re.MULTILINE)
_USER = re.compile(r"CREATE (?:OR REPLACE )?(?:FUNCTION|VIEW|TRIGGER)\b[^;]*?\bwebhook\.(\w+)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def text_of(file: str) -> str:
    """Read a file of the tree."""
    return (ROOT / file).read_text(encoding="utf-8")


def function_lines(file: str, number: int | None = None) -> set[Line]:
    """Return the lines of the innermost function around a line, or of all: none that an import runs."""
    functions = [node for node in _nodes(file) if isinstance(node, Function)]
    if number is not None:
        functions = [node for node in functions if number in _lines(node)][-1:]
    return {line for function in functions for line in _body(file, function)}


def lines_run_for(file: str, number: int, steps: int = MAX_STEPS) -> set[Line]:
    """Return the lines whose tests use a line.

    In a function those of its statement. What an import runs is used elsewhere: a signature in its function's
    body, a constant or a field where its name stands.
    """
    around = [node for node in _nodes(file) if number in _lines(node)]
    function = next((node for node in around if isinstance(node, Function)), None)
    if function and number < function.body[0].lineno:
        return _body(file, function)
    if function:
        own = _lines(around[-1])
        inner = [node.lineno for node in ast.walk(around[-1]) if isinstance(node, ast.stmt)][1:]
        header = range(own.start, min(inner, default=own.stop))
        return {(file, n) for n in (header if number in header else [number])}
    found = set[Line]()
    for name in _assigned(around[-1]) if around and steps else ():
        pattern = rf"\.{name}\b|\b{name}=" if len(around) > 1 else rf"\b{name}\b"
        found |= lines_naming(pattern, [file] if name.startswith("_") else FILES, steps - 1)
    return found


def lines_naming(pattern: str, files: Iterable[str] = FILES, steps: int = MAX_STEPS) -> set[Line]:
    """Return the lines that run where a text that matches is used."""
    found = set[Line]()
    for file in files:
        for number, text in enumerate(text_of(file).splitlines(), 1):
            if re.search(pattern, text):
                found |= lines_run_for(file, number, steps)
    return found


def statements_using(migration: str) -> set[str]:
    """Return the statements that use what the end of a migration defines, by functions and views too."""
    parts = [part for path in _sql("migrations") for part in _PART.split(text_of(path))]
    users = [(match[1], part) for part in parts if (match := _USER.match(part))]
    new, found = set(re.findall(r"\bwebhook\.(\w+)", _PART.split(migration)[-1])[:1]), set[str]()
    while new:
        found |= new
        new = {name for name, part in users if _names(part, found)} - found
    statements = [STATEMENT.split(text_of(path))[1:] for path in _sql(STATEMENTS)]
    named = (pair for parts in statements for pair in zip(parts[::2], parts[1::2], strict=True))
    return {name for name, text in named if _names(text, found)}


def _sql(folder: str) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / folder).rglob("*.sql"))]


def _names(text: str, objects: set[str]) -> bool:
    return not objects.isdisjoint(re.findall(r"\bwebhook\.(\w+)", text))


@functools.cache
def _nodes(file: str) -> list[ast.stmt]:
    """Return a module's statements, each before those in it."""
    return [node for node in ast.walk(ast.parse(text_of(file))) if isinstance(node, ast.stmt)]


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or 0) + 1)


def _body(file: str, function: Function) -> set[Line]:
    return {(file, number) for number in range(function.body[0].lineno, _lines(function).stop)}


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets += [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
