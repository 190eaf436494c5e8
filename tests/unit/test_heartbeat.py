"""A daemon's notes of itself: what was written is told once, and nothing is lost without a database."""

from collections.abc import Mapping

import pytest

from tests.unit.harnesses.recorder import RecorderHarness
from webhook_dispatcher.dispatch.heartbeat import MAX_TEXT, MAX_TEXTS, Pulse
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.ports import Heartbeat


class FakeHeartbeats:
    """Keeps what was noted. is_away, refuses: nothing can be."""

    def __init__(self) -> None:
        self.noted: list[Heartbeat] = []
        self.removed: list[Mapping[str, int]] = []
        self.is_away = self.refuses = False

    async def note(self, beat: Heartbeat) -> None:
        if self.is_away:
            raise StorageUnavailable("away")
        if self.refuses:
            raise StatementRefused("42501", "no")
        self.noted.append(beat)

    async def remove(self, attempts: Mapping[str, int]) -> None:
        if self.is_away:
            raise StorageUnavailable("away")
        self.removed.append(attempts)


class Beating:
    """A daemon's pulse beside a real recorder."""

    def __init__(self) -> None:
        self.recording = RecorderHarness()
        self.heartbeats = FakeHeartbeats()
        self.reasons: list[str] = []
        self.faults: list[str] = []
        self.pulse = Pulse(
            self.heartbeats,
            self.recording.recorder,
            self.recording.clock,
            lanes=lambda: 3,
            in_flight=lambda: 2,
            reasons=lambda: self.reasons,
            faults=lambda: self.faults,
        )

    def attempts(self) -> list[Mapping[str, int]]:
        return [beat.attempts for beat in self.heartbeats.noted]


@pytest.fixture
def beating() -> Beating:
    return Beating()


async def test_what_was_recorded_is_noted_once(beating: Beating) -> None:
    session = beating.recording.session("m", 1, 2, 3)
    beating.recording.attempt(session)
    await beating.pulse.step()
    beating.recording.step()
    beating.recording.attempt(session, None)
    beating.recording.attempt(session)
    beating.recording.settle()
    await beating.pulse.step()
    await beating.pulse.step()
    assert beating.attempts() == [{}, {"delivered": 2, "status": 1}, {}]


async def test_a_note_that_failed_is_made_up_for(beating: Beating) -> None:
    session = beating.recording.session("m", 1, 2)
    beating.recording.attempt(session)
    beating.recording.settle()
    beating.heartbeats.is_away = True
    with pytest.raises(StorageUnavailable):
        await beating.pulse.step()
    beating.recording.attempt(session)
    beating.recording.settle()
    beating.heartbeats.is_away = False
    await beating.pulse.step()
    assert beating.attempts() == [{"delivered": 2}]


async def test_the_end_takes_the_last_attempts_along(beating: Beating) -> None:
    session = beating.recording.session("m", 1)
    beating.recording.attempt(session)
    beating.recording.settle()
    await beating.pulse.end()
    assert (beating.heartbeats.noted, beating.heartbeats.removed) == ([], [{"delivered": 1}])


async def test_what_is_wrong_is_said_within_bounds(beating: Beating) -> None:
    beating.reasons = ["x" * 1000, "a\0b"]
    beating.faults = ["fault"] * 50
    await beating.pulse.step()
    [beat] = beating.heartbeats.noted
    assert (beat.lanes, beat.attempts_in_flight) == (3, 2)
    assert (beat.reasons, beat.faults) == (["x" * MAX_TEXT, "ab"], ["fault"] * MAX_TEXTS)


async def test_it_tells_how_long_nothing_was_committed() -> None:
    beating = Beating()
    clock, heartbeats = beating.recording.clock, beating.heartbeats
    heartbeats.is_away = True
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await beating.pulse.step()
        clock.advance(7)
    assert beating.pulse.uncommitted_for() == 14
    heartbeats.is_away, heartbeats.refuses = False, True
    with pytest.raises(StatementRefused):
        await beating.pulse.step()
    clock.advance(7)
    assert beating.pulse.uncommitted_for() == 0
    heartbeats.refuses = False
    await beating.pulse.step()
    clock.advance(7)
    assert beating.pulse.uncommitted_for() == 0
