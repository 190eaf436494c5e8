import json
from datetime import UTC, datetime
from random import Random

from webhook_dispatcher.domain.event import CHARGE_TYPES
from webhook_dispatcher.local.charges import Charge

NOW = datetime(2026, 11, 20, 8, 15, tzinfo=UTC)


def lives(count: int) -> list[list[tuple[str, str]]]:
    random = Random(5)
    return [life(Charge(random, "m", NOW)) for _ in range(count)]


def life(charge: Charge) -> list[tuple[str, str]]:
    steps = []
    while not charge.is_over:
        steps.append(charge.step())
    return steps


def test_every_published_type_happens_and_no_other() -> None:
    happened = {event_type for steps in lives(200) for event_type, _ in steps}
    assert happened == set(CHARGE_TYPES)


def test_every_life_begins_with_its_creation() -> None:
    assert {steps[0][0] for steps in lives(50)} == {"charge.created"}


def test_the_text_is_json_whose_parts_add_up() -> None:
    for steps in lives(50):
        for _, text in steps:
            charge = json.loads(text)
            assert sum(share["amount"] for share in charge["split"]["recipients"]) == charge["amount"]


def test_the_text_holds_what_a_careless_middleman_would_rewrite() -> None:
    texts = "".join(text for steps in lives(100) for _, text in steps)
    for treacherous in ("1.10", "1e3", "\\u00e3", "ã", "\n  "):
        assert treacherous in texts


def test_the_same_seed_tells_the_same_stories() -> None:
    assert lives(10) == lives(10)
