"""Other versions of the program: copies of this one with one more migration, whose column is used, or fewer.

The older of two goes on beside the newer one or is refused.
"""

import asyncio
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance import forked
from tests.acceptance.installation import Installation
from tests.acceptance.load import PATIENCE
from tests.acceptance.processes import Daemon, environment
from webhook_dispatcher.storage.schema import SCHEMA_VERSION

ROOT = Path(__file__).parents[2]
NEXT = SCHEMA_VERSION + 1
NAME = f"{NEXT:04}_next"
ADDS = f"""
    SET lock_timeout = '5s';
    SET statement_timeout = '1min';
    SET ROLE webhook_owner;
    ALTER TABLE webhook.lane ADD COLUMN recorded_by integer DEFAULT {SCHEMA_VERSION};
    CREATE INDEX lane_recorded_by ON webhook.lane (recorded_by);
    UPDATE webhook.state SET schema_version = {NEXT};
"""
RECORDED_BY_NEXT = f"SELECT count(*) FROM webhook.lane WHERE recorded_by = {NEXT}"
USES = ("recalled = lane.recalled AND NOT (plan.is_ours AND plan.is_over),", f"recorded_by = {NEXT},")
"""A line of the statement that records outcomes, and what the next version has behind it."""
NEW_TYPE = "charge.Invented"
"""Of a form that this version does not send; it sends any other that the database takes."""
REVISION = '''
    """One more."""

    from webhook_dispatcher.storage.migration import run_sql_file

    revision = "{name}"
    down_revision = "{before}"


    def upgrade() -> None:
        """Apply the SQL file of the same name."""
        run_sql_file(f"versions/{{revision}}.sql")
'''


class OtherVersion(NamedTuple):
    """A checkout of another version."""

    root: Path

    @classmethod
    def next(cls, root: Path, migration: str) -> "OtherVersion":
        """Copy this version, and add a migration and a statement that uses it."""
        # Compiled files too: they stay valid, and three programs start from here.
        shutil.copytree(ROOT / "src", root / "src")
        shutil.copytree(ROOT / "migrations", root / "migrations")
        versions = root / "migrations/versions"
        revision = REVISION.format(name=NAME, before=sorted(versions.glob("0*.py"))[-1].stem)
        (versions / f"{NAME}.sql").write_text(textwrap.dedent(migration))
        (versions / f"{NAME}.py").write_text(textwrap.dedent(revision).lstrip())
        storage = root / "src/webhook_dispatcher/storage"
        replace(storage / "sql/recording.sql", USES[0], "\n".join(USES))
        return cls(root)

    @classmethod
    def before(cls, root: Path, schema_version: int) -> "OtherVersion":
        """Copy this version without the migrations from that schema on."""
        shutil.copytree(ROOT / "src", root / "src")
        shutil.copytree(ROOT / "migrations", root / "migrations")
        for file in (root / "migrations/versions").glob("0*"):
            if int(file.name[:4]) >= schema_version:
                file.unlink()
        return cls(root)

    async def migrate(self, installation: Installation) -> None:
        """Bring the schema to this version while everything goes on."""
        dsn = installation.database.dsn("postgres")
        done = await asyncio.to_thread(self.run, "migrate", MIGRATION_DATABASE_URL=dsn, DATABASE_URL=dsn)
        assert done.returncode == 0, done.stderr

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run one command of this version's command line."""
        variables = environment(settings) | {"PYTHONPATH": str(self.root / "src")}
        return forked.run(["webhook_dispatcher", *arguments], variables, self.root)

    def learn_type(self) -> None:
        """Let this version know one more event type."""
        types = '    "charge.fiscal_failed",\n'
        replace(self.root / "src/webhook_dispatcher/domain/event.py", types, f'{types}    "{NEW_TYPE}",\n')

    def spawn(self, installation: Installation, **changed: str) -> Daemon:
        """Start a daemon of this version without waiting for it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self.root / "src"))
            return installation.spawn(**changed)

    async def start(self, installation: Installation, **changed: str) -> Daemon:
        """Start a daemon of this version."""
        daemon = self.spawn(installation, **changed)
        await daemon.logged("daemon.started", PATIENCE)
        return daemon


def replace(file: Path, old: str, new: str) -> None:
    """Replace the one occurrence of a text."""
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file.name} has changed: {old!r}"
    file.write_text(text.replace(old, new), encoding="utf-8")
