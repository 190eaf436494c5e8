"""What is said in each language: labels, plurals, spans, instants, and what others wrote."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, timedelta, timezone
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from tests.unit.delivery_facts import HOSTILE, facts, rules
from tests.unit.test_words import SAID
from webhook_dispatcher import words
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.diagnosis.explanation import Action, Explanation, Rules, explain, unknown
from webhook_dispatcher.diagnosis.said import Said, Word, said
from webhook_dispatcher.diagnosis.vocabulary import Part, choices, label, parts, say
from webhook_dispatcher.domain.command import Code, CommandName, CommandStatus
from webhook_dispatcher.domain.delivery import EventFacts
from webhook_dispatcher.domain.event import FailedReason, State, Trigger
from webhook_dispatcher.domain.language import DEFAULT, LANGUAGES, Language
from webhook_dispatcher.domain.merchant import MerchantState
from webhook_dispatcher.domain.verdict import Outcome

UNIT = timedelta(seconds=1)


def labels(kind: str, language: Language = DEFAULT) -> dict[str, str]:
    prefix = f"label.{kind}."
    return {
        key.removeprefix(prefix): said[0] for key, said in SAID[language].items() if key.startswith(prefix)
    }


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "kind", sorted({key.split(".")[1] for key in SAID["en"] if key.startswith("label.")})
)
def test_no_two_choices_look_alike(kind: str, language: Language) -> None:
    assert len(set(labels(kind, language).values())) == len(labels(kind)) > 0


def test_a_closed_list_has_a_word_for_each_of_its_values() -> None:
    closed: dict[str, Iterable[object]] = {
        "state": State,
        "failed_reason": FailedReason,
        "outcome": Outcome,
        "trigger": Trigger,
        "command": CommandName,
        "command_status": CommandStatus,
        "rejection": [code.value for code in Code],
        "merchant": MerchantState,
    }
    assert {kind: set(labels(kind)) for kind in closed} == {
        kind: {str(value) for value in values} for kind, values in closed.items()
    }
    assert choices("state") == ("pending", "pending_retry", "delivered", "failed")


def test_what_a_newer_version_wrote_is_shown_as_it_is() -> None:
    assert label(Word("outcome", "New\x1b"), "ru") == "New\N{REPLACEMENT CHARACTER}"
    assert say(said("result", outcome=Word("outcome", "New")), "uz", UTC) == "New"


def test_russian_has_three_forms() -> None:
    wanted = {
        **dict.fromkeys((1, 21, 101, 1_001), "очередь"),
        **dict.fromkeys((2, 3, 4, 22, 104), "очереди"),
        **dict.fromkeys((0, 5, 11, 12, 13, 14, 19, 20, 111, 112, 1_014), "очередей"),
    }
    assert {count: words.template("said.holds", "ru", count).split()[-1] for count in wanted} == wanted


def test_a_count_decides_the_form() -> None:
    wanted: dict[tuple[Language, int], str] = {
        ("en", 1): "1 attempt of it is no longer in the log.",
        ("en", 1_000): "1,000 attempts of it are no longer in the log.",
        ("ru", 1): "1 его попытки больше нет в журнале.",
        ("ru", 2_000): "2\N{NO-BREAK SPACE}000 его попыток больше нет в журнале.",
        ("uz", 1): "Uning 1 ta urinishi endi jurnalda yo‘q.",
    }
    for (language, count), told in wanted.items():
        assert say(said("attempts_gone", count=count), language, UTC) == told


def test_spans() -> None:
    wanted = {
        -5: ["0 s", "0 с", "0 soniya"],
        0.25: ["0.2 s", "0,2 с", "0,2 soniya"],
        19.94: ["19.9 s", "19,9 с", "19,9 soniya"],
        61: ["1 min 1 s", "1 мин 1 с", "1 daqiqa 1 soniya"],
        7_200: ["2 h", "2 ч", "2 soat"],
        86_460: ["1 d", "1 д", "1 kun"],
        90_061: ["1 d 1 h", "1 д 1 ч", "1 kun 1 soat"],
    }
    assert {
        seconds: [amounts.span(timedelta(seconds=seconds), language) for language in LANGUAGES]
        for seconds in wanted
    } == wanted


def test_what_was_counted_to_a_limit_is_said_to_be_more() -> None:
    assert [amounts.many(count, 1_000, "en") for count in (999, 1_000, 1_001)] == ["999", "1,000", "1,000+"]
    assert amounts.many(1_001, 1_000, "ru") == "1\N{NO-BREAK SPACE}000+"


def test_instants_are_shown_in_the_readers_zone() -> None:
    told = said("delivered", at=NOW)
    assert say(told, "en", UTC) == "It was delivered at 2026-11-20 08:15:30."
    assert say(told, "uz", ZoneInfo("Asia/Tashkent")) == "U 2026-11-20 13:15:30 da yetkazildi."
    assert say(told, "ru", timezone(timedelta(hours=-9))) == "Оно доставлено 2026-11-19 23:15:30."


def test_a_page_gets_the_facts_beside_the_words() -> None:
    event = UUID(int=7)
    told = said("overtaken", number="8", event=event, at=NOW)
    found = [part for part in parts(told, "en", UTC) if part.fact is not None]
    assert found == [
        Part("8", "number", "8"),
        Part(str(event), "event", event),
        Part("2026-11-20 08:15:30", "at", NOW),
    ]
    assert "".join(part.text for part in parts(told, "ru", UTC)) == say(told, "ru", UTC)


def test_lists_are_written_as_in_a_sentence() -> None:
    delays = (UNIT, 2 * UNIT, 3 * UNIT)
    assert "after 1 s, 2 s and 3 s, each" in say(said("retries", delays=delays), "en", UTC)
    assert "через 1 с и 2 с, каждый" in say(said("retries", delays=delays[:2]), "ru", UTC)
    assert "1 soniya dan" in say(said("retries", delays=delays[:1]), "uz", UTC)


@given(st.sampled_from(HOSTILE), st.sampled_from(LANGUAGES))
def test_text_of_others_is_shown_and_never_read(text: str, language: Language) -> None:
    shown = say(said("because_otherwise", reason=text), language, UTC)
    assert shown == "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def everything(told: Explanation) -> Iterator[Said]:
    """Go through all that an explanation says."""
    yield told.title
    yield told.gist
    yield from [*told.why, *told.attempts, *told.following]
    yield from (advice.said for advice in told.advice)


@given(facts, rules, st.sampled_from(LANGUAGES))
def test_explanations_are_said_in_every_language(given: EventFacts, rules: Rules, language: Language) -> None:
    told = explain(given, rules)
    for each in everything(told):
        told_so = say(each, language, UTC)
        assert told_so
        assert told_so.replace("\N{NO-BREAK SPACE}", " ").isprintable()
    for each in unknown(given.delivery.merchant_id, date(2026, 11, 20), given.commands):
        assert say(each, language, UTC)


def test_a_viewer_may_look_and_change_nothing() -> None:
    looks = {Action.PREVIEW_RECOVERY, Action.LIST_WAITING, Action.CHECK, Action.SEE_DISPATCHERS}
    assert {action for action in Action if not action.is_for_operators} == looks
