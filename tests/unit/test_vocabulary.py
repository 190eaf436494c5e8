"""The texts are complete in three languages, and everything that is said is said in each of them."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, timedelta, timezone
from pathlib import Path
from string import Formatter
from uuid import UUID
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from tests.unit.delivery_facts import HOSTILE, facts, rules
from webhook_dispatcher.diagnosis import amounts, timeline, vocabulary
from webhook_dispatcher.diagnosis.explanation import Action, Explanation, Rules, explain, unknown
from webhook_dispatcher.diagnosis.said import Said, Word, said
from webhook_dispatcher.diagnosis.texts import reasons
from webhook_dispatcher.diagnosis.texts.form import Text
from webhook_dispatcher.diagnosis.texts.words import WORDS
from webhook_dispatcher.diagnosis.vocabulary import TEXTS, Part, choices, label, parts, say
from webhook_dispatcher.domain.command import Code, CommandName, CommandStatus
from webhook_dispatcher.domain.event import FailedReason, State, Trigger
from webhook_dispatcher.domain.language import LANGUAGES, Language
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.insight import EventFacts

UNIT = timedelta(seconds=1)
DIAGNOSIS = Path(vocabulary.__file__).parent
CYRILLIC = set("абвгдеёжзийклмнопрстуфхцчшщъыьэюя")


def templates(text: Text) -> list[str]:
    return [text] if isinstance(text, str) else list(text.values())


def placeholders(template: str) -> set[str]:
    """Return the names in a template, which has nothing else in braces."""
    found = list(Formatter().parse(template))
    assert all(not spec and conversion is None for _, _, spec, conversion in found if spec is not None)
    return {name for _, name, _, _ in found if name is not None}


def test_each_text_is_there_in_every_language_with_the_same_facts() -> None:
    for key, texts in TEXTS.items():
        assert set(texts) == set(LANGUAGES), key
        wanted = set.union(*(placeholders(each) for text in texts.values() for each in templates(text)))
        for language, text in texts.items():
            for template in templates(text):
                assert placeholders(template) == wanted, (key, language)
            if not isinstance(text, str):
                assert set(text) == set(amounts.FORMS[language]), (key, language)
                assert vocabulary.COUNT in wanted, key


def test_each_text_is_said_somewhere() -> None:
    said_in = [ast.parse(path.read_text(encoding="utf-8")) for path in DIAGNOSIS.glob("*.py")]
    constants = {
        node.value
        for tree in said_in
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    made = {f"moment_{name}" for name in timeline.COMMANDS} | {f"{key}_since" for key in constants}
    assert set(TEXTS) - constants - made - set(reasons.TEXTS) == set()


def written(texts: Mapping[Language, Text], language: Language) -> str:
    return " ".join(templates(texts[language])).lower()


def test_each_text_is_in_its_own_language() -> None:
    long = [key for key in TEXTS if len(written(TEXTS[key], "en").split()) > 4]
    assert long
    for key in long:
        english, russian, uzbek = (written(TEXTS[key], language) for language in LANGUAGES)
        assert not CYRILLIC & set(english + uzbek), key
        assert len(CYRILLIC & set(russian)) > 2, key
        assert english != uzbek, key


def test_letters_and_quotes_are_those_of_the_alphabets() -> None:
    for texts in [*TEXTS.values(), *(words for values in WORDS.values() for words in values.values())]:
        uzbek = written(texts, "uz")
        assert "'" not in uzbek
        assert not {"o’", "g’"} & {uzbek[at : at + 2] for at in range(len(uzbek))}


def test_each_word_of_a_list_is_there_in_every_language() -> None:
    for kind, values in WORDS.items():
        for word, texts in values.items():
            assert set(texts) == set(LANGUAGES), (kind, word)
            assert all(text.strip() == text != "" for text in texts.values()), (kind, word)
        for language in LANGUAGES:
            labels = [texts[language] for texts in values.values()]
            assert len(set(labels)) == len(labels), f"two choices of {kind} look alike"


def test_a_closed_list_has_a_word_for_each_of_its_values() -> None:
    closed: dict[str, Iterable[object]] = {
        "state": State,
        "failed_reason": FailedReason,
        "outcome": Outcome,
        "trigger": Trigger,
        "command": CommandName,
        "command_status": CommandStatus,
        "rejection": [code.value for code in Code],
    }
    assert {kind: list(choices(kind)) for kind in closed} == {
        kind: [str(value) for value in values] for kind, values in closed.items()
    }


def test_what_a_newer_version_wrote_is_shown_as_it_is() -> None:
    assert label(Word("outcome", "New\x1b"), "ru") == "New\N{REPLACEMENT CHARACTER}"
    assert say(said("result", outcome=Word("outcome", "New")), "uz", UTC) == "New"


def test_russian_has_three_forms() -> None:
    wanted = {
        **dict.fromkeys((1, 21, 101, 1_001), "one"),
        **dict.fromkeys((2, 3, 4, 22, 104), "few"),
        **dict.fromkeys((0, 5, 11, 12, 13, 14, 19, 20, 111, 112, 1_014), "many"),
    }
    assert {count: amounts.form(count, "ru") for count in wanted} == wanted


def test_a_count_decides_the_form() -> None:
    wanted: dict[tuple[Language, int], str] = {
        ("en", 1): "1 attempt of it is no longer in the log.",
        ("en", 1_000): "1,000 attempts of it are no longer in the log.",
        ("ru", 1): "1 его попытки больше нет в журнале.",
        ("ru", 2_000): "2\N{NO-BREAK SPACE}000 его попыток больше нет в журнале.",
        ("uz", 1): "Uning 1 ta urinishi endi jurnalda yo‘q.",
    }
    for (language, count), words in wanted.items():
        assert say(said("attempts_gone", count=count), language, UTC) == words


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
        words = say(each, language, UTC)
        assert words
        assert words.replace("\N{NO-BREAK SPACE}", " ").isprintable()
    for each in unknown(given.delivery.merchant_id, date(2026, 11, 20), given.commands):
        assert say(each, language, UTC)


def test_a_viewer_may_look_and_change_nothing() -> None:
    looks = {Action.PREVIEW_RECOVERY, Action.LIST_WAITING, Action.CHECK, Action.SEE_DISPATCHERS}
    assert {action for action in Action if not action.is_for_operators} == looks
