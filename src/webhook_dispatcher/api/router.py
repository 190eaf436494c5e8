"""Finds the operation that a request is for, by its path and method.

A template is a path whose parameters stand in braces, such as `/v1/deliveries/{eventId}`. Where GET is, HEAD
is too: the server leaves the body out.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from webhook_dispatcher.api.calls import Operation, Refused
from webhook_dispatcher.api.catalogue import METHOD_NOT_ALLOWED, NO_SUCH_PATH

PARAMETER = re.compile(r"\{(\w+)\}")
_VALUE = r"(?P<\1>[A-Za-z0-9._~%:@!$&'()*+,;=-]{1,3072})"


class Router:
    """Finds operations by path and method; a path of letters alone goes before one with parameters."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = tuple(operations)
        self._by_path: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            methods = self._by_path.setdefault(operation.template, {})
            if operation.method in methods:
                raise ValueError(f"{operation.method} {operation.template} is there twice")
            methods[operation.method] = operation
            if operation.method == "GET":
                methods["HEAD"] = operation
        self._patterns = [
            (re.compile(PARAMETER.sub(_VALUE, template.replace(".", r"\."))), methods)
            for template, methods in self._by_path.items()
            if "{" in template
        ]

    def find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        """Return the operation and its parameters; Refused says what there is instead."""
        methods, parameters = self._at(path)
        if method not in methods:
            raise Refused(METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(sorted(methods))})
        return methods[method], parameters

    def _at(self, path: str) -> tuple[Mapping[str, Operation], Mapping[str, str]]:
        if (methods := self._by_path.get(path)) is not None and "{" not in path:
            return methods, {}
        for pattern, methods in self._patterns:
            if (match := pattern.fullmatch(path)) is not None:
                return methods, {name: _decoded(value) for name, value in match.groupdict().items()}
        raise Refused(NO_SUCH_PATH)


def _decoded(value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise Refused(NO_SUCH_PATH) from None
