"""Another installation's database: what changes something refuses it, and `adopt` renames it."""

import shlex
from datetime import timedelta

import pytest

from tests.unit.fakes.administration import NOW, FakeAdministration, session
from tests.unit.test_cli_check import configured, problems
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.check import examine
from webhook_dispatcher.domain.command import COMMANDS, CommandStatus, CommandView
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.mass_command import Preview
from webhook_dispatcher.storage.installation import Backlog, Installation

STAGING = {"WEBHOOK_INSTALLATION": "staging"}
REFUSED = (
    "webhook-dispatcher: WEBHOOK_INSTALLATION: the database belongs to 'prod-eu1', not to 'staging'; "
    "connect to the database of 'staging'; if this is a copy that is to become it, "
    "`webhook-dispatcher adopt` shows what it owes and renames it\n"
)
SHOWN = [spec.cli.example for spec in COMMANDS.values() if spec.cli is not None]
CHANGES = [
    *("endpoint set m1 https://merchant.com/", "endpoint rotate-secret m1", "endpoint rekey"),
    *("endpoint remove m1 --yes", "commands withdraw 12", "commands stop 12"),
    *(f"{example} --no-wait".replace("--dry-run", "--yes") for example in SHOWN),
]


@pytest.mark.parametrize("line", CHANGES)
def test_changes_refuse_another_installation(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    database = FakeAdministration()
    database.preview = Preview(1, False, {"failed": 1}, {"merchant-1": 1}, 0)
    assert main(shlex.split(line), session(database, **STAGING)) == 2
    assert (capsys.readouterr().err, database.requests, database.endpoints) == (REFUSED, [], {})


@pytest.mark.parametrize("line", CHANGES)
@pytest.mark.parametrize("environ", [{}, {"WEBHOOK_INSTALLATION": "prod-eu1"}])
def test_the_right_name_and_none_at_all_are_let_through(line: str, environ: dict[str, str]) -> None:
    database = FakeAdministration(
        [CommandView(12, "retry", None, NOW, CommandStatus.PENDING, None, None, None, None)]
    )
    assert main(shlex.split(line), session(database, **environ)) in (0, 1)


@pytest.mark.parametrize("line", ["endpoint list", "deliveries list"])
def test_what_only_reads_does_not_ask(line: str) -> None:
    assert main(shlex.split(line), session(FakeAdministration(), **STAGING)) == 0


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (Installation("prod-eu1", 7, 7), "ok; prod-eu1"),
        (Installation("prod-eu1", None, 7), "ok; prod-eu1"),
        (Installation("prod-eu1", 7, None), "ok; prod-eu1"),
        (Installation(None, None, 7), "ok; it has no name yet: `webhook-dispatcher migrate` gives it one"),
        (
            Installation("prod-eu1", 7, 8),
            'ok; prod-eu1; this server is 8, it was on 7: is this a copy? See "Copies of a database" '
            "in the documentation; `adopt` notes the new one",
        ),
    ],
)
async def test_check_notes_the_name_and_another_server(found: Installation, note: str) -> None:
    database = await configured()
    database.installation = found
    findings = await examine(session(database))
    assert problems(findings) == {}
    assert [finding.note for finding in findings if finding.check == "installation"] == [note]


def test_a_schema_without_a_name_is_nobody_elses() -> None:
    Installation(None, None, None).verify("staging")
    with pytest.raises(ConfigurationError):
        Installation("prod-eu1", None, None).verify("staging")


def test_adopting_shows_what_is_owed_and_asks_for_yes(capsys: pytest.CaptureFixture[str]) -> None:
    database = FakeAdministration()
    database.installation = Installation("prod-eu1", 7, 8)
    database.owed = Backlog(12, 3, 2, NOW - timedelta(days=1))
    assert main(["adopt"], session(database, **STAGING)) == 1
    out, err = capsys.readouterr()
    facts = dict(line.rsplit(maxsplit=1) for line in out.splitlines())
    assert facts == {
        "installation": "prod-eu1",
        "WEBHOOK_INSTALLATION": "staging",
        "server it was on": "7",
        "this server": "8",
        "pending": "12",
        "pending_retry": "3",
        "merchants": "2",
        "oldest": "2026-11-19T08:15:30.123Z",
    }
    assert "nothing was changed; `adopt --yes` makes it staging" in err
    assert database.installation.name == "prod-eu1"
    assert main(["adopt", "--yes"], session(database, **STAGING)) == 0
    assert database.installation == Installation("staging", 8, 8)
    assert capsys.readouterr().out.endswith("the database belongs to staging now\n")
    assert main(["adopt"], session(database, **STAGING)) == 0
    assert "nothing to adopt" in capsys.readouterr().out


def test_adopting_needs_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adopt", "--yes"], session(FakeAdministration())) == 2
    assert "WEBHOOK_INSTALLATION: not set" in capsys.readouterr().err
