"""Processes that ask a name server of ours, without knowing it: no query leaves the machine.

They run in a mount namespace of their own, in which /etc/resolv.conf names it; so they resolve as they
always do. c-ares, which the daemon uses, reads a port there; glibc knows no port but 53.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contest import Unmeasurable
from benchmarks.nameserver import ADDRESS
from benchmarks.processes import Child

DNS_PORT = 53
_RESOLVE_BY = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'


@contextmanager
def name_server(folder: Path, *options: str, port: int = 0) -> Iterator[Sequence[str]]:
    """Run a name server; yields the beginning of the command of whoever is to ask it.

    Raises Unmeasurable where that takes more than we may.
    """
    _try_port(port)
    child = Child("benchmarks.nameserver", "--port", str(port), *options, log=folder / "nameserver.log")
    try:
        found = child.read()["port"]
        resolv_conf = folder / f"resolv-{found}.conf"
        resolv_conf.write_text(f"nameserver {ADDRESS}{'' if found == DNS_PORT else f':{found}'}\n")
        namespaces = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
        command = ["unshare", *namespaces, "--", "sh", "-c", _RESOLVE_BY, "sh", str(resolv_conf)]
        _try_command(command)
        yield command
    finally:
        child.end()


def _try_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((ADDRESS, port))
        except OSError as error:
            raise Unmeasurable(f"no name server at {ADDRESS}, UDP port {port} (root?): {error}") from None


def _try_command(command: Sequence[str]) -> None:
    if shutil.which("unshare") is None:
        raise Unmeasurable("`unshare` is missing (package util-linux)")
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        why = " ".join(tried.stderr.split())
        raise Unmeasurable(f"no mount namespace of our own (root or user namespaces are needed): {why}")
