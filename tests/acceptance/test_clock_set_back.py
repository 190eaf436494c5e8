"""The clock of a whole machine is an hour ahead, and set right: nothing waits for that hour."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.acceptance.installation import Installation
from tests.servers.database import Database, own_migrated
from tests.servers.own_clock import HOUR, OwnClock, with_own_clock
from tests.servers.scaled_time import LIBRARY
from tests.waiting import until
from webhook_dispatcher.local.behaviour import Behaviour

pytestmark = pytest.mark.needs(LIBRARY is not None, "libfaketime is missing: apt-get install libfaketime")
SETTINGS = {"RETRY_SCHEDULE": "PT2S,PT2S,PT2S", "LEASE": "PT15S"}
FAILING, DYING = ["f1", "f2"], ["d1", "d2"]


@pytest.fixture
def clock() -> Iterator[OwnClock]:
    with with_own_clock() as clock:
        yield clock


@pytest.fixture
def own_database(clock: OwnClock) -> Iterator[Database]:
    """Serve a database whose clock, and its daemons', is an hour ahead."""
    clock.set(HOUR)
    with own_migrated({}) as database:
        yield database


@pytest.mark.slow("integration/test_clock_steps.py::test_nothing_waits_for_the_hour_that_the_clock_was_ahead")
async def test_what_waited_by_a_clock_that_was_ahead_goes_on_when_it_is_right(
    own_world: Installation, clock: OwnClock
) -> None:
    """Retries that wait for their delay, and the lanes and retries of a daemon that died."""
    await own_world.configure(*FAILING, *DYING)
    hangs = Behaviour(delay=timedelta(minutes=1))
    for merchant_id in FAILING:
        own_world.receiver.behave(merchant_id, Behaviour(status=503), Behaviour())
    own_world.receiver.behave(DYING[0], Behaviour(status=503), hangs, Behaviour())
    own_world.receiver.behave(DYING[1], hangs, Behaviour())
    dying = await own_world.start(**SETTINGS)
    sent = await own_world.emit_each(DYING, 1)
    await own_world.arrived(3)
    dying.kill()
    surviving = await own_world.start(**SETTINGS)
    sent += await own_world.emit_each(FAILING, 1)
    await until(lambda: all(own_world.receiver.of(merchant_id) for merchant_id in FAILING))
    clock.set(0)
    await own_world.all_delivered(len(sent))
    assert surviving.log("clock.corrected")
