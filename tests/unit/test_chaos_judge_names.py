"""The judge of chaos runs on names: who sends to an address that one has left, and who resolves none."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lab.chaos.evidence import ARRIVED_AT
from lab.chaos.judge import judge
from lab.chaos.moves import AGE, AGE_OF_REFUSED, RETRY
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, calm, found

OLD, NEW = "127.1.0.1", "127.2.0.1"
MADE, MOVED = 19.0, 20.0


@pytest.fixture
def builder() -> EvidenceBuilder:
    builder = calm()
    builder.fault("move", MOVED, 32, merchants=["m1"], moved={"m1": NEW}, alone_since=10)
    return builder


def send(
    builder: EvidenceBuilder, name: str, at: float, connection: int, address: str, status: int = 200
) -> None:
    """Let a request arrive, and one at the new address after a refusal."""
    builder.event(name, at - 0.05)
    arrival = builder.attempt(name, at, status, took=0)
    arrival.connection, arrival.headers = connection, {**arrival.headers, ARRIVED_AT: address}
    if status != 200:
        builder.attempt(name, 30).connection = 99


@pytest.mark.parametrize(
    ("status", "age", "is_right"),
    [
        *((200, AGE + RETRY - 0.1, True), (200, AGE + RETRY + 0.1, False)),
        *((503, AGE_OF_REFUSED + RETRY - 0.1, True), (503, AGE_OF_REFUSED + RETRY + 0.1, False)),
    ],
)
def test_a_kept_connection_leads_to_an_old_address_until_it_is_too_old(
    builder: EvidenceBuilder, status: int, age: float, is_right: bool
) -> None:
    send(builder, "d", MADE, 7, "")
    send(builder, "e", MADE + age, 7, OLD, status)
    send(builder, "f", MADE + age + 0.5, 7, OLD)
    send(builder, "g", MADE + age + 1, 8, NEW)
    assert found(builder) == ([] if is_right else [(What.UNFOLLOWED, "f")])
    follow = judge(builder.evidence()).follow
    assert (follow.moves, follow.misled) == (1, 2)
    assert follow.last == pytest.approx(MADE + age + 0.5 - MOVED)


@pytest.mark.parametrize(("at", "is_right"), [(MOVED + 0.5, True), (MOVED + 4, False)])
def test_a_later_connection_leads_to_the_new(builder: EvidenceBuilder, at: float, is_right: bool) -> None:
    send(builder, "d", at, 7, OLD)
    assert found(builder) == ([] if is_right else [(What.UNFOLLOWED, "d")])


@pytest.mark.parametrize(
    ("outages", "is_right"),
    [([(39, 42)], True), ([(39, 39.5)], False), ([(39, 41), (50, 51)], True), ([(39, 41), (60, 61)], False)],
)
def test_a_name_is_resolved_soon_after_its_name_server_answers_again(
    builder: EvidenceBuilder, outages: Sequence[tuple[float, float]], is_right: bool
) -> None:
    for outage in outages:
        builder.fault("name server", *outage, stops_all=True)
    builder.event("d", 39.9)
    for at in (40, 43, 46 if len(outages) == 1 else 50):
        builder.record("d", at, None, took=0.8)
    builder.rows["d"] = [replace(row, is_unresolved=True) for row in builder.rows["d"]]
    builder.attempt("d", 51)
    assert found(builder) == ([] if is_right else [(What.UNRESOLVED, "d")])
