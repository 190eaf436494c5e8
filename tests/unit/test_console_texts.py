"""The console's words are complete: in three languages, with the same facts, and none that no page says."""

import re
from pathlib import Path
from string import Formatter

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.plots import OutcomeClass
from webhook_dispatcher.console.texts import TEXTS, Text
from webhook_dispatcher.diagnosis.amounts import FORMS
from webhook_dispatcher.diagnosis.vocabulary import choices
from webhook_dispatcher.domain.language import LANGUAGES
from webhook_dispatcher.storage.console.commands import Became
from webhook_dispatcher.storage.console.filters import Refusal
from webhook_dispatcher.storage.console.merchants import MerchantOrder, MerchantState

CONSOLE = Path(texts.__file__).parent
SOURCES = [path for path in CONSOLE.rglob("*") if path.suffix in (".py", ".html") and path.name != "texts.py"]
SAID = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
KEY = re.compile(r"""["']([a-z_]+\.[a-z_]*[a-z](?:\.[a-z_]+)?)["']""")


def templates_of(text: Text) -> list[str]:
    return [text] if isinstance(text, str) else list(text.values())


def facts_of(text: Text) -> set[str]:
    return {name for each in templates_of(text) for _, name, _, _ in Formatter().parse(each) if name}


def test_a_text_has_the_same_facts_in_every_language() -> None:
    for key, said in TEXTS.items():
        assert len(said) == len(LANGUAGES), key
        assert len({frozenset(facts_of(text)) for text in said}) == 1, key
        assert all(each.strip() for text in said for each in templates_of(text)), key


def test_a_plural_has_each_form_of_its_language() -> None:
    plurals = {key: said for key, said in TEXTS.items() if not isinstance(said[0], str)}
    assert plurals
    for key, said in plurals.items():
        for language, text in zip(LANGUAGES, said, strict=True):
            assert not isinstance(text, str), (key, language)
            assert set(text) == set(FORMS[language]), (key, language)


def test_every_key_that_is_said_is_there() -> None:
    groups = {key.partition(".")[0] for key in TEXTS}
    named = {key for key in KEY.findall(SAID) if key.partition(".")[0] in groups}
    files = {path.name for path in SOURCES} | {"act.html"}
    logged = {"request.failed", "request.answered", "request.unanswered"}
    assert named - set(TEXTS) - files - logged == set()


def test_every_text_is_said_somewhere() -> None:
    made = {
        *(f"filter.{refusal}" for refusal in (*Refusal, "not_an_event")),
        *(f"merchants.order_{order}" for order in MerchantOrder),
        *(f"commands.became_{became}" for became in Became),
        *(f"account.theme_{theme}" for theme in ("light", "dark", "system")),
        *(f"account.role_{role}" for role in ("operator", "viewer")),
        *(f"overview.attempts_{name}" for name in ("hour", "day")),
        *(f"overview.class_{name}" for name in OutcomeClass),
        *(f"sign_in.{outcome}" for outcome in ("over", "idle", "locked", "disabled")),
        *(f"nav.{section}" for section in ("overview", "deliveries", "merchants", "commands", "health")),
        *(f"deliveries.{kind}" for kind in ("event", "charge")),
    }
    by_stem = {key for key in TEXTS if key.endswith((".title", ".text"))}
    asked = [key for key in TEXTS if key.startswith(("act.", "delivery."))]
    acts = {key for key in asked if key.endswith(("_about", "_do", "_all"))}
    assert made <= set(TEXTS)
    assert set(TEXTS) - set(KEY.findall(SAID)) - made - by_stem - acts - {"act.retry", "act.cancel"} == set()


def test_each_state_of_a_merchant_has_a_word() -> None:
    assert set(choices("merchant")) == set(MerchantState)


def test_what_others_wrote_is_no_template() -> None:
    said = texts.say("filter.said", "en", field="{problem.__class__}", problem="<b>{field}</b>")
    assert said == "{problem.__class__}: <b>{field}</b>"


def test_counts_take_the_form_of_the_language() -> None:
    said = {count: texts.say("act.retry_do", "ru", count=count) for count in (1, 3, 1005)}
    assert (said[1], said[3]) == ("Повторить 1 доставку", "Повторить 3 доставки")
    assert said[1005] == "Повторить 1\N{NO-BREAK SPACE}005 доставок"
