"""Whose certificates are accepted: the authorities of the system and of a file, as they are on disk now.

Both are exchanged while we run, and a process runs for months. A file that cannot be read, as one that is
half-written, changes nothing until it can.
"""

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

_Stamp = tuple[int, int, int] | None

_log = structlog.get_logger()


class Authorities:
    """Gives the TLS context for a new connection.

    make: makes one that accepts nobody's certificates. ca_file: authorities besides the system's.
    Errors: OSError (ssl.SSLError among them) where that file cannot be read at the start.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], ca_file: Path | None = None) -> None:
        system = ssl.get_default_verify_paths()
        folders = os.environ.get(system.openssl_capath_env, system.openssl_capath)
        self._make = make
        self._ca_file = None if ca_file is None else str(ca_file)
        self._system_file = os.environ.get(system.openssl_cafile_env, system.openssl_cafile)
        self._watched = [self._system_file, *folders.split(os.pathsep), *filter(None, [self._ca_file])]
        self._known = self._refused = self._look()
        self._context = self._read(self._known)

    def context(self) -> ssl.SSLContext:
        """Return what verifies certificates as of now: made anew, 20 ms, where a file has changed."""
        found = self._look()
        if found not in (self._known, self._refused):
            try:
                self._context = self._read(found)
                self._known = found
            except OSError as error:
                self._refused = found
                _log.warning("authorities.unreadable", error=str(error))
        return self._context

    def _look(self) -> Mapping[str, _Stamp]:
        return {path: _stamp(path) for path in self._watched}

    def _read(self, found: Mapping[str, _Stamp]) -> ssl.SSLContext:
        context = self._make()
        # Of the system's, OpenSSL passes over what it cannot read: there may be none. What was there must be.
        context.load_default_certs()
        if found[self._system_file] != self._known[self._system_file]:
            context.load_verify_locations(cafile=self._system_file)
        if self._ca_file is not None:
            context.load_verify_locations(cafile=self._ca_file)
        return context


def _stamp(path: str) -> _Stamp:
    """Return what is another one where a file is exchanged or written; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
