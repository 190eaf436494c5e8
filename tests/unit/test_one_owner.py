"""What a lane session knows is written in its own module alone; everybody else asks it by its methods."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import webhook_dispatcher
from webhook_dispatcher.dispatch.lane_session import LaneSession, MemoryBudget

PACKAGE = Path(webhook_dispatcher.__file__).parent
OWNER = PACKAGE / "dispatch" / "lane_session.py"
FIELDS = {*LaneSession.__slots__} | {"used", "fullness"}
CHANGES = {
    *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft"),
    *("insert", "intersection_update", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "set"),
    *("set_result", "setdefault", "sort", "update"),
}
"""Methods of containers, events and futures that change them."""
HOLDERS = {"session", "memory", "_memory"}
"""Names that a session or the memory budget goes by, anywhere in the product."""


def _is_field(node: ast.expr) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr not in FIELDS:
        return False
    holder = node.value
    return (isinstance(holder, ast.Name) and holder.id in HOLDERS) or (
        isinstance(holder, ast.Attribute) and holder.attr in HOLDERS
    )


def _targets(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return [part for target in targets for part in _parts(target)]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            return _parts(target)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CHANGES:
            return [value]
    return []


def _parts(target: ast.expr) -> list[ast.expr]:
    """Return what an assignment writes: each part of a tuple, and the container of an item."""
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [deeper for part in parts for deeper in _parts(part)]
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return _parts(value)
    return [target]


def written_fields(source: str) -> Iterator[str]:
    """Yield the fields of a session, or of the memory budget, that a source writes or changes."""
    for node in ast.walk(ast.parse(source)):
        for target in _targets(node):
            if _is_field(target):
                assert isinstance(target, ast.Attribute)
                yield f"{target.attr} in line {node.lineno}"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "source",
    [
        "session.wait_until = now",
        "entry.session.state = 1",
        "session.trusted_until, other = 1, 2",
        "session.unwritten += 1",
        "del session.run[0]",
        "session.run.popleft()",
        "self._memory.used -= 1",
        "session.unblocked.set()",
        "session.read_seqs.add(3)",
    ],
)
def test_every_way_to_write_is_noticed(source: str) -> None:
    assert len(list(written_fields(source))) == 1


def test_fields_are_the_ones_that_there_are() -> None:
    assert {"run", "read_seqs", "unfinished", "state", "fetch", "unblocked", "wait_until"} <= FIELDS
    assert {*vars(MemoryBudget())} - {"_max"} == {"used", "fullness"}


def test_no_other_module_writes_what_a_session_knows() -> None:
    others = (module for module in PACKAGE.rglob("*.py") if module != OWNER)
    written = {module.name: list(written_fields(module.read_text(encoding="utf-8"))) for module in others}
    assert {name: fields for name, fields in written.items() if fields} == {}
