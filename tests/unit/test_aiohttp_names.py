"""The servers start with an aiohttp in which their bounds hold, and with no other."""

import ast
import inspect
import tomllib
from pathlib import Path

import pytest
from aiohttp.web_protocol import RequestHandler

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.web import aiohttp_names
from webhook_dispatcher.web.aiohttp_names import NAMES, NEXT_VERSION, VERSION
from webhook_dispatcher.web.server import Connection

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("version", ["3.14.0", "3.14.4", "3.15.0", "4.0.0", "3.14.5rc1", "3.15", ""])
def test_another_version_is_refused(version: str) -> None:
    with pytest.raises(ConfigurationError, match=r"bounds .* may not hold") as error:
        aiohttp_names.check(version)
    assert "aiohttp>=3.14.5,<3.15.0" in (error.value.remedy or "")


def test_the_one_that_is_installed_is_taken_and_those_like_it() -> None:
    aiohttp_names.check()
    aiohttp_names.check("3.14.99")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_that_is_there_no_more_is_refused(name: str) -> None:
    others = dict.fromkeys(NAMES - {name})
    with pytest.raises(ConfigurationError, match="aiohttp is of version"):
        aiohttp_names.check(protocol=type("Protocol", (), others))


def test_every_private_name_that_the_server_uses_is_looked_for() -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(Connection)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    } | set(vars(Connection))
    private = {name for name in used if name.startswith("_") and not name.startswith("__")}
    assert private & set(dir(RequestHandler)) == NAMES


def test_what_is_installed_with_it_is_what_it_starts_with() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    low, high = (".".join(map(str, version)) for version in (VERSION, NEXT_VERSION))
    assert f"aiohttp>={low},<{high}" in wanted
