"""Finds what a request is for, by its path and method.

A template is a path whose parameters stand in braces, such as `/v1/deliveries/{eventId}`. Where GET is, HEAD
is too: the server leaves the body out.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar
from urllib.parse import unquote

PARAMETER = re.compile(r"\{(\w+)\}")
RouteT = TypeVar("RouteT")
SEGMENT = r"[A-Za-z0-9._~%:@!$&'()*+,;=-]{1,3072}"


class NoSuchPath(Exception):
    """No template is like this path."""


class NoSuchMethod(Exception):
    """The path is there, with other methods. allow: the header that says which."""

    def __init__(self, allow: str) -> None:
        super().__init__(allow)
        self.allow = allow


class Router(Generic[RouteT]):
    """Finds routes by path and method; a path of letters alone goes before one with parameters."""

    def __init__(self, routes: Iterable[tuple[str, str, RouteT]], value: str = SEGMENT) -> None:
        """Set up. routes: method, template, and what is found. value: the pattern of a parameter."""
        self._by_path: dict[str, dict[str, RouteT]] = {}
        for method, template, route in routes:
            methods = self._by_path.setdefault(template, {})
            if method in methods:
                raise ValueError(f"{method} {template} is there twice")
            methods[method] = route
            if method == "GET":
                methods["HEAD"] = route
        self._patterns = [
            (re.compile(PARAMETER.sub(rf"(?P<\1>{value})", template.replace(".", r"\."))), methods)
            for template, methods in self._by_path.items()
            if "{" in template
        ]

    def find(self, method: str, path: str) -> tuple[RouteT, Mapping[str, str]]:
        """Return the route and its parameters. Errors: NoSuchPath, NoSuchMethod."""
        methods, parameters = self._at(path)
        if method not in methods:
            raise NoSuchMethod(", ".join(sorted(methods)))
        return methods[method], parameters

    def _at(self, path: str) -> tuple[Mapping[str, RouteT], Mapping[str, str]]:
        if (methods := self._by_path.get(path)) is not None and "{" not in path:
            return methods, {}
        for pattern, methods in self._patterns:
            if (match := pattern.fullmatch(path)) is not None:
                return methods, {name: _decoded(value) for name, value in match.groupdict().items()}
        raise NoSuchPath


def _decoded(value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise NoSuchPath from None
