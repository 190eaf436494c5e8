"""The catalogues of words are whole, and whatever is wrong with them fails `make check`."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from babel import Locale

from docs.words import ENGLISH, WORDS, faults, main, read, rows, texts_of, write
from webhook_dispatcher.domain.language import DEFAULT, LANGUAGES, Language
from webhook_dispatcher.words import template

KEYS = [key for key, _ in rows(read(WORDS / ENGLISH, DEFAULT))]
SAID: dict[Language, dict[str, tuple[str, ...]]] = {
    language: {
        key: texts_of(message, language)
        for key, message in rows(
            read(WORDS / (ENGLISH if language == DEFAULT else f"{language}.po"), language)
        )
    }
    for language in LANGUAGES
}
CYRILLIC = re.compile("[А-Яа-яЁё]")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the catalogues."""
    return Path(shutil.copytree(WORDS, tmp_path / "words"))


def change(name: str, old: str, new: str) -> Callable[[Path], None]:
    def broken(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return broken


BREAKS: dict[str, Callable[[Path], None]] = {
    "uz.po is missing": lambda folder: (folder / "uz.po").unlink(),
    "uz.mo is stale": lambda folder: (folder / "uz.mo").unlink(),
    "ru.mo is stale": change("ru.po", "Доставки", "Отправки"),
    "en.mo is stale": change(ENGLISH, '"Deliveries"', '"Shipments"'),
    "ru.po: console.nav.deliveries is not translated": change("ru.po", 'msgstr "Доставки"', 'msgstr ""'),
    "uz.po: console.nav.deliveries is missing": change(
        "uz.po", "console.nav.deliveries", "console.nav.other"
    ),
    "ru.po: console.no_delivery.text has other placeholders": change(
        "ru.po", "События {event}", "События {id}"
    ),
    "uz.po: console.act.retry_do has other placeholders": change(
        "uz.po", '"{count} ta yetk', '"{number} ta yetk'
    ),
    "ru.po is not as make words writes it": change("ru.po", "\n\nmsgctxt", "\n\n\nmsgctxt"),
    "words.pot: nothing says console.nav.zebra": change(
        ENGLISH, "console.nav.deliveries", "console.nav.zebra"
    ),
    "words.pot: console.nav.deliveries is said, and is not": change(
        ENGLISH, "console.nav.deliveries", "console.nav.zebra"
    ),
    "words.pot: said.waits is said, and is not": change(ENGLISH, '"said.waits"', '"said.zebra"'),
    "words.pot: nothing says zebra.said.waits": change(ENGLISH, '"said.waits"', '"zebra.said.waits"'),
    "words.pot: nothing says label.state.zebra": change(ENGLISH, "label.state.failed", "label.state.zebra"),
    "words.pot: console.nav.pages is there more than once": change(
        ENGLISH, "console.nav.deliveries", "console.nav.pages"
    ),
}


def test_nothing_is_wrong_with_the_catalogues() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize("fault", BREAKS)
def test_what_is_wrong_fails_the_check(fault: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BREAKS[fault](folder)
    assert main(["--check"], folder) == 1
    assert fault in capsys.readouterr().err


def test_an_english_text_that_changed_is_shown_to_translators(folder: Path) -> None:
    change(ENGLISH, '"Deliveries"', '"Shipments"')(folder)
    write(folder)
    assert [fault for fault in faults(folder) if "nav.deliveries" in fault] == [
        f"{language}.po: console.nav.deliveries is not translated" for language in ("ru", "uz")
    ]
    write(folder)
    assert list(faults(folder)), "it is forgotten when it is written again"


def test_a_new_text_waits_for_its_words(folder: Path) -> None:
    change(
        ENGLISH,
        'msgctxt "console.nav.pages"',
        'msgctxt "console.nav.new"\nmsgid "x"\nmsgstr ""\n\nmsgctxt "console.nav.pages"',
    )(folder)
    write(folder)
    assert [*faults(folder)] == [
        f"{language}.po: console.nav.new is not translated" for language in ("ru", "uz")
    ]


def test_a_text_is_in_its_own_language_with_the_letters_of_its_alphabet() -> None:
    for key in KEYS:
        english, russian, uzbek = (" ".join(SAID[language][key]) for language in LANGUAGES)
        assert not CYRILLIC.search(english + uzbek), key
        assert not re.search("['ʻ]|[og][’`]", uzbek), f"{key}: o‘ and g‘ have U+2018, and ’ is U+2019"
        if len(english.split()) > 4:
            assert len(CYRILLIC.findall(russian)) > 2, key
            assert english != uzbek, key


def test_no_word_is_used_that_the_glossary_rules_out() -> None:
    lines = (WORDS / "glossary.md").read_text(encoding="utf-8").splitlines()
    table = [line.strip("|").split("|") for line in lines if line.startswith("| ")][2:]
    gone = [word for *_, ruled_out in table for word in ruled_out.strip().split(", ") if word]
    assert gone
    found = {
        (word, key)
        for word in gone
        for said in SAID.values()
        for key, texts in said.items()
        if any(word.lower() in text.lower() for text in texts)
    }
    assert found == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_forms_of_plurals_are_those_of_cldr(language: Language) -> None:
    rule = Locale(language).plural_form
    said = {(rule(count), template("said.holds", language, count)) for count in range(2_000)}
    assert len(said) == len({form for form, _ in said}) == len(SAID[language]["said.holds"])


def test_a_text_that_is_not_there_is_an_error() -> None:
    for count in (None, 1, 2):
        with pytest.raises(KeyError):
            template("console.nav.zebra", "ru", count)


STARTED = """
import sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
{}
print([path for path in opened if path.endswith(".mo")], "webhook_dispatcher.words" in sys.modules)
"""


@pytest.mark.parametrize(
    "started",
    [
        "from webhook_dispatcher.cli import main\nsys.argv = ['webhook-dispatcher', '--help']\n"
        "try: main()\nexcept SystemExit: pass",
        "import webhook_dispatcher.cli.program, webhook_dispatcher.app.daemon",
    ],
    ids=["--help", "run"],
)
def test_what_tells_nobody_anything_loads_no_words(started: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", STARTED.format(started)], capture_output=True, check=True, text=True
    )
    assert told.stdout.splitlines()[-1] == "[] False"
