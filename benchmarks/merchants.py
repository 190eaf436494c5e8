"""Who takes part in the isolation benchmark: merchants by kind, and where each kind's events go."""

from collections.abc import Mapping

HEALTHY = "healthy"
SILENT = "silent"
MUTE = "mute"
DRIP = "drip"
NAMELESS = "nameless"

COUNTS = {HEALTHY: 100, SILENT: 100, MUTE: 100, DRIP: 100, NAMELESS: 20}
BAD = (SILENT, MUTE, DRIP, NAMELESS)
DOES = {
    SILENT: "accepts the connection and says nothing, so TLS never begins",
    MUTE: "completes TLS, reads the request, never answers",
    DRIP: "completes TLS, answers with one header a second, for ever",
    NAMELESS: "its host's name servers never answer",
}


def names(kind: str) -> list[str]:
    """Return the ids of a kind's merchants."""
    return [f"{kind}-{number:03}" for number in range(1, COUNTS[kind] + 1)]


def bad_names() -> list[str]:
    """Return the ids of all merchants that misbehave."""
    return [name for kind in BAD for name in names(kind)]


def urls(healthy_root: str, ports: Mapping[str, int]) -> dict[str, str]:
    """Return every merchant's URL: the receiver's, a tarpit's port, or a name that nobody resolves."""
    found = {name: f"{healthy_root}{name}" for name in names(HEALTHY)}
    for kind in (SILENT, MUTE, DRIP):
        found |= {name: f"https://127.0.0.1:{ports[kind]}/{name}" for name in names(kind)}
    # Names under .example are refused before any look-up. Nothing leaves the machine: see installation.py.
    return found | {name: f"https://hooks.{name}.example.com/" for name in names(NAMELESS)}
