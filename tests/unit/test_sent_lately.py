"""What daemons sent lately is looked for when another server answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from tests.unit.builders import NOW, make_event
from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.dispatch import sent_lately
from webhook_dispatcher.dispatch.sent_lately import MAX_AGE, SentLately
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.record import Attempt, Record, Sent
from webhook_dispatcher.domain.verdict import Outcome

PATIENCE = 30.0


def ended(seq: int, outcome: Outcome = Outcome.DELIVERED, **changes: Any) -> Record:
    """Return what an attempt at an event shows."""
    event = make_event(seq, **changes)
    return Record(event, 1, False, Attempt(1, NOW, NOW, 5, 200, outcome), None, None, None, NOW)


@dataclass
class Looks:
    """What was looked for."""

    batches: list[list[Sent]] = field(default_factory=list)
    is_away: bool = False

    async def note_lost(self, sent: Sequence[Sent]) -> int:
        if self.is_away:
            raise StorageUnavailable("away")
        self.batches.append(list(sent))
        return 0

    @property
    def seqs(self) -> list[int]:
        return [sent.seq for batch in self.batches for sent in batch]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def lately(clock: FakeClock) -> SentLately:
    return SentLately(clock)


async def test_nothing_is_looked_for_while_the_same_server_answers(lately: SentLately) -> None:
    looks = Looks()
    lately.note(ended(1))
    await lately.step(looks.note_lost)
    assert looks.batches == []


async def test_what_ended_before_or_soon_after_is_sought_once(lately: SentLately, clock: FakeClock) -> None:
    looks = Looks()
    lately.note(ended(1))
    lately.note(ended(2, Outcome.BLOCKED))
    lately.note(Record(make_event(2), 1, False, None, None, None, None, NOW))
    lately.doubt(PATIENCE)
    await lately.step(looks.note_lost)
    clock.advance(PATIENCE - 1)
    lately.note(ended(3))
    clock.advance(2)
    lately.note(ended(4))
    await lately.step(looks.note_lost)
    await lately.step(looks.note_lost)
    assert looks.seqs == [1, 3], "nothing was sent of 2; 4 began with the new server"


async def test_of_the_copies_of_an_event_it_is_sought_as_its_merchants(lately: SentLately) -> None:
    looks = Looks()
    lately.note(ended(2, lane=lane_named("m", 1), id=UUID(int=1), copy_of=UUID(int=1)))
    lately.note(ended(3, Outcome.STATUS, lane=lane_named("m", 2), copy_of=UUID(int=1)))
    lately.doubt(PATIENCE)
    await lately.step(looks.note_lost)
    assert [
        [(sent.event_id, sent.merchant_id, sent.is_delivered) for sent in batch] for batch in looks.batches
    ] == [[(UUID(int=1), "m", True)]]


async def test_what_could_not_be_sought_is_tried_again(
    lately: SentLately, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_lately, "BATCH", 2)
    looks = Looks(is_away=True)
    for seq in range(1, 6):
        lately.note(ended(seq))
    lately.doubt(PATIENCE)
    with pytest.raises(StorageUnavailable):
        await lately.step(looks.note_lost)
    looks.is_away = False
    await lately.step(looks.note_lost)
    assert [len(batch) for batch in looks.batches] == [2, 2, 1]
    assert looks.seqs == [1, 2, 3, 4, 5]


async def test_the_last_are_kept_that_retention_cannot_have_dropped(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_lately, "KEPT", 4)
    lately, looks = SentLately(clock), Looks()
    for seq in (1, 2, 3, 4):
        lately.note(ended(seq))
    clock.advance(MAX_AGE)
    for seq in (2, 5, 6):
        lately.note(ended(seq))
    lately.doubt(PATIENCE)
    await lately.step(looks.note_lost)
    assert looks.seqs == [2, 5, 6], "1 to 3 made room, 4 is old"


async def test_what_was_delivered_once_stays_delivered(lately: SentLately) -> None:
    looks = Looks()
    lately.note(ended(1))
    lately.note(ended(1, Outcome.TIMEOUT))
    lately.doubt(PATIENCE)
    await lately.step(looks.note_lost)
    assert [(sent.seq, sent.is_delivered) for sent in looks.batches[0]] == [(1, True)]
