"""The judge of chaos runs on several endpoints: each event at each that was there and wanted it."""

from dataclasses import replace
from uuid import UUID

import pytest

from lab.chaos.evidence import Life
from lab.chaos.routes import derived, may_be
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, found

OTHERS = frozenset({"charge.failed"})


@pytest.fixture
def builder() -> EvidenceBuilder:
    """Two events of a merchant with three endpoints, of which the third does not want them."""
    builder = EvidenceBuilder()
    builder.lives = {"m1.2": [Life()], "m1.3": [Life()]}
    builder.filters["m1.3"] = {OTHERS}
    for name, at in (("d", 5.0), ("e", 5.1)):
        builder.event(name, at)
        builder.route(name, int(10 * at), 1, 2)
    builder.attempt_each("de", 5.2)
    for number, name in enumerate(("d.2", "e.2")):
        builder.attempt(name, 5.2 + number / 10)
    return builder


def test_an_event_comes_to_each_endpoint_that_wants_it(builder: EvidenceBuilder) -> None:
    assert found(builder) == []
    del builder.ends["e.2"]
    assert found(builder) == [(What.PASSED_OVER, "e.2")]
    del builder.routed["e"]
    assert found(builder) == [(What.LOST, "e.2"), (What.LOST, "e.3")]


def test_what_an_endpoint_does_not_want_is_not_sent_there(builder: EvidenceBuilder) -> None:
    builder.rows["e.3"], builder.ends["e.3"] = [], ("delivered", None)
    builder.attempt("e.3", 5.4)
    assert found(builder) == [(What.UNWANTED, "e.3")]


def test_what_no_endpoint_is_to_get_goes_nowhere(builder: EvidenceBuilder) -> None:
    builder.request("d.4", 5.4)
    builder.record("d", 5.4)
    assert (What.WRONG_MERCHANT, "d") in found(builder)


def test_each_endpoint_has_an_order_of_its_own(builder: EvidenceBuilder) -> None:
    builder.event("f", 6, charge="a")
    builder.event("g", 6.1)  # of a charge of its own
    for name in "fg":
        builder.route(name, 62, 1, 2)
    builder.attempt_each("fg", 7)
    builder.attempt("g.2", 6.5)
    builder.attempt("f.2", 6.7)
    assert found(builder) == [(What.OUT_OF_ORDER, "g.2")]
    builder.by_charge.add("m1.2")
    assert found(builder) == []


@pytest.mark.parametrize(
    ("life", "what"),
    [
        (Life(since_seq=3), None),
        (Life(since_seq=2), What.PASSED_OVER),
        *((Life(0, 2, 61), None), (Life(0, 61, 62), None), (Life(0, 62, 65), What.PASSED_OVER)),
    ],
)
def test_an_endpoint_gets_what_comes_after_its_addition_and_is_routed_before_its_removal(
    builder: EvidenceBuilder, life: Life, what: What | None
) -> None:
    builder.lives["m1.4"] = [life]
    builder.filters["m1.4"] = {OTHERS}  # of the events before
    builder.event("f", 6)
    builder.route("f", 62, 1, 2)
    builder.attempt("f", 6.5)
    builder.attempt("f.2", 6.5)
    del builder.filters["m1.4"]
    of_f = [one for one in found(builder) if one[1] == "f.4"]
    assert of_f == ([(what, "f.4")] if what else [])


def test_nothing_is_routed_to_an_endpoint_that_has_been_removed(builder: EvidenceBuilder) -> None:
    builder.lives["m1.4"] = [Life(removed_from=40, removed_by=50)]
    builder.filters["m1.4"] = {OTHERS}
    builder.rows["e.4"], builder.ends["e.4"] = [], ("failed", "cancelled")
    builder.cancelled.add("e")
    assert found(builder) == [(What.UNWANTED, "e.4")]
    builder.lives["m1.4"] = [Life(removed_from=40, removed_by=51)]
    assert found(builder) == []


def test_an_event_without_copies_is_of_number_1_once_that_is_alone(builder: EvidenceBuilder) -> None:
    builder.event("f", 6)
    builder.attempt("f", 6.5)
    assert found(builder) == [(What.LOST, "f.2"), (What.LOST, "f.3")]
    builder.lives = {name: [Life(0, 65, 65)] for name in builder.lives}
    assert found(builder) == []


def test_an_event_routed_while_number_1_was_removed_may_miss_it(builder: EvidenceBuilder) -> None:
    del builder.ends["e"], builder.rows["e"]
    builder.arrivals = [one for one in builder.arrivals if (one.merchant_id, one.event_id) != ("m1", "e")]
    assert found(builder) == [(What.PASSED_OVER, "e")]
    builder.gaps["m1"] = [Life(0, 40, 60)]
    assert found(builder) == []


def test_what_is_given_up_before_it_is_routed_is_so_for_all(builder: EvidenceBuilder) -> None:
    builder.event("f", 6)
    builder.fail("f", "skipped", 6.5)
    builder.command("skip", 6.4, merchant_id="m1", before=6.3)
    assert found(builder) == []
    builder.commands.clear()
    assert {one for _, one in found(builder)} == {"f", "f.2", "f.3"}


def test_a_fault_of_one_endpoint_excuses_no_other(builder: EvidenceBuilder) -> None:
    builder.event("f", 6)
    builder.route("f", 62, 1, 2)
    builder.attempt("f", 20)
    builder.attempt("f.2", 20)
    builder.fault("one hangs", 6, 20, merchants=["m1.2"])
    assert found(builder) == [(What.LATE, "f")]
    builder.fault("paused", 6, 20, merchants=["m1"])
    assert found(builder) == []


def test_the_platform_is_told_of_an_endpoint_by_itself(builder: EvidenceBuilder) -> None:
    builder.told_after = 5.0
    builder.endpoint_ids = {"e2": "m1.2"}
    for number in range(9):
        name = f"f{number}"
        builder.event(name, 10 + 5 * number)
        builder.route(name, 62 + 3 * number, 1, 2)
        builder.attempt(name, 10.1 + 5 * number)
        builder.attempt(f"{name}.2", 10.1 + 5 * number, status=503)
        builder.fail(f"{name}.2", "cancelled")
        builder.cancelled.add(name)
    assert found(builder) == [(What.UNTOLD, None)]
    builder.notice("endpoint.failing", at=20, failingSince=10.1, endpointId="e1")
    assert (What.UNTOLD, None) in found(builder)
    builder.notices.clear()
    builder.arrivals.pop()
    builder.notice("endpoint.failing", at=20, failingSince=10.1, endpointId="e2")
    assert found(builder) == []


def test_deliveries_ids_are_known_as_the_database_derives_them(builder: EvidenceBuilder) -> None:
    event = builder.events["d"]
    event_id = UUID("7d3a5b1c-52b1-4a2e-9b39-6b2a8c0e4f11")
    assert derived([replace(event, id=str(event_id))], ["m1.2", "m2.3"]) == {
        "a2268036-27ad-b592-f84c-f5bb3c70684d": f"{event_id}.2"
    }


def test_a_row_with_an_events_own_id_may_be_any_of_its_deliveries() -> None:
    delivery_ids = {"c": "d.2", "f": "e.2", "g": "d.3"}
    assert list(may_be(["d", "f"], delivery_ids)) == ["d", "d.2", "d.3", "e.2"]


def test_what_was_sent_in_a_lost_stretch_may_have_been_for_a_lost_endpoint(builder: EvidenceBuilder) -> None:
    builder.fault("failover", 7, 8, ["d1.1"], exposed=1, stops_all=True, forgets_from=5.2)
    builder.request("d.4", 5.4)
    assert (What.WRONG_MERCHANT, "d") not in found(builder)
    builder.request("d.4", 12)
    assert (What.WRONG_MERCHANT, "d") in found(builder)
