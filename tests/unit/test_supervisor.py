"""What a supervisor decides by itself: when to start again, what a process learns, what is said of one."""

from pathlib import Path

import pytest

from tests.unit.fakes.administration import KEYS
from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.app.child import Child, Place, said_of
from webhook_dispatcher.app.supervisor import MAX_WAIT, RestartWait, environment_of
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.telemetry.metrics import ProcessState

ENVIRON = {
    "PATH": "/bin",
    "WEBHOOK_DATABASE_URL": "eu1=postgresql://u:one@localhost/a eu2=postgresql://u:two@localhost/b",
    "WEBHOOK_MIGRATION_DATABASE_URL": "eu1=postgresql://localhost/a eu2=postgresql://localhost/b",
    "WEBHOOK_SECRET_KEYS": KEYS,
    "WEBHOOK_LEASE": "PT40S",
}


def test_wait_doubles_after_short_lives_and_begins_anew_after_a_long_one() -> None:
    waits = RestartWait()
    assert [waits.after(0.5) for _ in range(7)] == [1, 2, 4, 8, 16, MAX_WAIT, MAX_WAIT]
    assert [waits.after(life) for life in (60, 59, 3600)] == [1, 2, 1]


def test_process_learns_of_its_own_database_alone() -> None:
    settings = load_settings(ENVIRON)
    shard = settings.databases()[1]
    environment = environment_of(shard, settings, ENVIRON, Path("/folder"))
    assert environment == {
        "PATH": "/bin",
        "WEBHOOK_DATABASE_URL": "eu2=postgresql://u:two@localhost/b",
        "WEBHOOK_SECRET_KEYS": KEYS,
        "WEBHOOK_LEASE": "PT40S",
        "PROMETHEUS_MULTIPROC_DIR": "/folder",
        "WEBHOOK_INSTANCE_DIR": "/folder/instances",
    }
    given = {**ENVIRON, "WEBHOOK_INSTANCE_DIR": "/run/w"}
    assert environment_of(shard, settings, given, Path("/folder"))["WEBHOOK_INSTANCE_DIR"] == "/run/w"
    assert load_settings(environment).databases() == (shard,)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        *((0, "ended with exit code 0"), (3, "ended with exit code 3"), (-9, "ended by SIGKILL")),
        (-63, "ended by signal 63"),
    ],
)
def test_end_of_a_process_is_told_in_words(code: int, said: str) -> None:
    assert said_of(code) == said


def test_place_without_a_process_is_away_and_says_why() -> None:
    child = Child(Place(1, None), {}, FakeClock())
    assert (child.state, child.pid) == (ProcessState.AWAY, None)
    assert child.reasons() == ["process 1: is not started yet"]
    child.explain("ended by SIGKILL, starts again within 1 s")
    assert child.reasons() == ["process 1: ended by SIGKILL, starts again within 1 s"]
