"""Which PostgreSQL the tests run on, and with which settings: from the environment.

TEST_POSTGRES_BIN: the folder of its programs; the wheel's without.
TEST_POSTGRES_SETTINGS: `stock`; `jit`, which compiles every statement of whoever does not say no; `awkward`,
where the dispatcher's role has the values of awkward_settings.py. `make test-postgres` goes through them.
"""

import os
from pathlib import Path

import pytest

from tests.servers.awkward_settings import bearable, known, literal
from webhook_dispatcher.local.binaries import major_version, wheel_programs

SETTINGS = ("stock", "jit", "awkward")
NOT_FOR_ALL_TESTS = {
    "session_replication_role": "without triggers a changed endpoint waits for its lane to be looked at",
    "row_security": "tests hold a statement in its middle by a policy, which would be an error instead",
}
"""What is tried by itself only, in tests/integration/test_server_settings.py."""
COMPILES_ALL = {
    "jit": "on",
    "jit_above_cost": "0",
    "jit_inline_above_cost": "0",
    "jit_optimize_above_cost": "0",
}


def programs() -> Path:
    """Return the programs that the tests run on."""
    named = os.environ.get("TEST_POSTGRES_BIN")
    return Path(named) if named else wheel_programs()


def client(name: str) -> Path:
    """Return a client program; what comes as a server alone has none, and the wheel's speak to it as well."""
    own = programs() / name
    return own if own.exists() else wheel_programs() / name


def wanted_settings() -> str:
    """Return which settings the server is to have; which must be some of ours."""
    named = os.environ.get("TEST_POSTGRES_SETTINGS", "stock")
    if named not in SETTINGS:
        raise pytest.UsageError(
            f"TEST_POSTGRES_SETTINGS: must be one of {', '.join(SETTINGS)}, not {named!r}"
        )
    return named


def has_jit(bin_dir: Path) -> bool:
    """Tell whether programs come with what compiles; pg_jit_available() says the same of a server."""
    return any((bin_dir.parent / "lib").rglob("llvmjit.so"))


def options() -> dict[str, str]:
    """Return the options to start a server with."""
    return COMPILES_ALL if wanted_settings() == "jit" else {}


def settings_of_tests() -> dict[str, str]:
    """Return what a test's own session sets, whoever it is: the product is tried, not it."""
    if wanted_settings() == "awkward":
        return bearable(major_version(programs()))
    return {"jit": "off"}  # it asks much once, and would wait for the compiler each time


def defaults_of_roles() -> list[str]:
    """Write the statements that give roles their defaults: what is tried is tried on the dispatcher."""
    if wanted_settings() == "jit":
        return [f"ALTER ROLE {role} SET jit = off" for role in ("postgres", "webhook_producer")]
    if wanted_settings() == "awkward":
        return [
            f"ALTER ROLE webhook_dispatcher SET {name} = {literal(name, values[0])}"
            for name, values in known(major_version(programs())).items()
            if name not in NOT_FOR_ALL_TESTS
        ]
    return []
