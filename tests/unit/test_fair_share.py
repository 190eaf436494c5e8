"""What is scarce is shared out so that who holds nothing yet finds some, however many hold all they can."""

import pytest

from webhook_dispatcher.api import memory
from webhook_dispatcher.api.charge_service.forwarded import MAX_AT_ONCE
from webhook_dispatcher.api.charge_service.upstream import MAX_CONNECTIONS
from webhook_dispatcher.api.fair_share import FairShare

MIB = 1_048_576


def held(share: FairShare, client: str, units: int = 1) -> int:
    """Take as often as it goes; return how often it went."""
    times = 0
    while share.take(client, units):
        times += 1
    return times


@pytest.mark.parametrize(("greedy", "another"), [(0, MAX_AT_ONCE), (1, 19), (4, 8), (8, 3), (13, 1)])
def test_requests_that_hang_in_the_charge_service_leave_some_to_others(greedy: int, another: int) -> None:
    share = FairShare(MAX_CONNECTIONS, MAX_AT_ONCE)
    for number in range(greedy):
        assert held(share, f"greedy {number}") >= another
    assert held(share, "another") == another


def test_eight_merchants_that_hold_all_bodies_they_can_leave_megabytes_to_another() -> None:
    share = memory.new_share()
    for number in range(8):
        held(share, f"greedy {number}", 16_384)
    assert share.take("another", 2 * MIB)


def test_what_is_released_is_there_again() -> None:
    share = FairShare(12, 3)
    for _ in range(2):
        assert held(share, "a") == 3
        share.release("a", 3)
    assert share.take("b", 3)
    assert not share.take("b", 1)
