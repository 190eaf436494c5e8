"""Styles, scripts and the mark: read once, and named by what they hold, so that browsers may keep them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One of them, under the name that pages use."""

    name: str
    content_type: str
    body: bytes


class StaticFiles:
    """All of them, in memory, by their plain names and by those that pages use: no request reads a file."""

    def __init__(self) -> None:
        self._by_plain_name = {
            found.name: _read(found.name, found.read_bytes())
            for found in (files("webhook_dispatcher.console") / "static").iterdir()
        }
        self._by_name = {file.name: file for file in self._by_plain_name.values()}

    def path(self, plain_name: str) -> str:
        """Return the path of a file."""
        return f"/static/{self._by_plain_name[plain_name].name}"

    def find(self, name: str) -> StaticFile | None:
        """Return a file by the name that pages use."""
        return self._by_name.get(name)

    def paths(self) -> list[str]:
        """Return the paths of all files."""
        return [f"/static/{name}" for name in self._by_name]


def _read(plain_name: str, body: bytes) -> StaticFile:
    stem, dot, ending = plain_name.rpartition(".")
    mark = hashlib.sha256(body).hexdigest()[:12]
    return StaticFile(f"{stem}.{mark}{dot}{ending}", TYPES[dot + ending], body)
