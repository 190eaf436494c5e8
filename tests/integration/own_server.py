"""A Postgres of a test's own, with settings that the shared one cannot have: a port, a talkative log."""

import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests import servers
from webhook_dispatcher.local.postgres import EmbeddedPostgres


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def own_server(options: Mapping[str, str]) -> Iterator[EmbeddedPostgres]:
    """Serve while entered."""
    # Not below pytest's own folder: as root without namespaces the server runs as nobody, who cannot pass.
    data_dir = Path(tempfile.mkdtemp(prefix="webhook-tests-"))
    try:
        chosen = {**servers.options(), **options}
        with EmbeddedPostgres(data_dir, durable=False, options=chosen, bin_dir=servers.programs()) as server:
            yield server
    finally:
        shutil.rmtree(data_dir)
