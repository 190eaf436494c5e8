"""A lane's name tells its merchant, and which of several endpoints it is for."""

import pytest
from structlog.testing import capture_logs

from tests.unit.builders import KEYRING, SECRET, make_endpoint, make_event
from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.dispatch.blocked import BlockedRows, Reason
from webhook_dispatcher.domain.lane import lane_named, merchant_of, number_of, told
from webhook_dispatcher.domain.signing import SealingKey
from webhook_dispatcher.telemetry.metrics import Metrics


@pytest.mark.parametrize("merchant_id", ["m", "$platform", "a b", "1", "\N{GRINNING FACE}" * 128])
@pytest.mark.parametrize("number", [None, 1, 9, 10, 999])
def test_a_lane_tells_whose_it_is(merchant_id: str, number: int | None) -> None:
    lane = lane_named(merchant_id, number)
    event = make_event(1, lane)
    assert (merchant_of(lane), number_of(lane)) == (merchant_id, number)
    assert (event.merchant_id, event.endpoint) == (merchant_id, number)
    # Nothing comes between a merchant's lanes: they are found as a range (all in collation C).
    assert merchant_id <= lane < f"{merchant_id} "


def test_a_name_that_somebody_restored_stops_nothing() -> None:
    assert told("m\x1fx") == {"merchant_id": "m"}


def test_the_log_names_merchant_and_endpoint() -> None:
    rows = BlockedRows(FakeClock(), Metrics("test"))
    with capture_logs() as logs:
        rows.find(Reason.UNREADABLE, "m", 7, None, "damaged")
        rows.find(Reason.UNREADABLE, lane_named("m", 2), 8, None, "damaged")
    named = [(line["merchant_id"], line.get("endpoint", "none")) for line in logs]
    assert named == [("m", "none"), ("m", 2)]


def test_a_secret_is_the_merchants_in_each_of_its_lanes() -> None:
    of_first, of_second = lane_named("m", 1), lane_named("m", 2)
    by_public_half = SealingKey(KEYRING.sealing_id, KEYRING.public_half(KEYRING.sealing_id))
    for sealed in (
        KEYRING.seal(of_second, SECRET),
        by_public_half.seal(of_second, SECRET),
        *make_endpoint("m").secrets,
    ):
        for lane in ("m", of_first, of_second):
            assert KEYRING.open(lane, sealed).revealed == SECRET.revealed
        assert not KEYRING.fits(lane_named("m2", 2), sealed)
