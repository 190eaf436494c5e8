"""Finds the route that a request is for, by its path and method."""

import re
from collections.abc import Mapping, Sequence

from webhook_dispatcher.console.calls import Refused, Route

_PARAMETER = re.compile(r"\{(\w+)\}")
_VALUE = r"(?P<\1>[A-Za-z0-9._~$-]{1,800})"


class Routes:
    """All routes; a path of letters alone goes before one with parameters. HEAD is what GET would answer."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._by_template: dict[str, dict[str, Route]] = {}
        for route in routes:
            methods = self._by_template.setdefault(route.template, {})
            if route.method in methods:
                raise ValueError(f"{route.name} is there twice")
            methods[route.method] = route
        self._patterns = [
            (re.compile(_PARAMETER.sub(_VALUE, template.replace(".", r"\."))), methods)
            for template, methods in self._by_template.items()
            if "{" in template
        ]

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """Return the route and its parameters; Refused says what there is instead."""
        methods, parameters = self._at(path)
        wanted = "GET" if method == "HEAD" else method
        if wanted not in methods:
            raise Refused(405, "method", allow=", ".join(sorted(methods)))
        return methods[wanted], parameters

    def _at(self, path: str) -> tuple[Mapping[str, Route], Mapping[str, str]]:
        if (methods := self._by_template.get(path)) is not None and "{" not in path:
            return methods, {}
        for pattern, methods in self._patterns:
            if (match := pattern.fullmatch(path)) is not None:
                return methods, match.groupdict()
        raise Refused(404, "not_found")
