"""The glossary is true: its terms are used where it says, and the words that are gone are not used again."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "webhook_dispatcher"
GLOSSARY = ROOT / "docs" / "glossary.md"
WITH_WORDS_OF_THEIR_OWN = {"contract.md"}
"""Documents in which gone words may stand: the contract, whose wording is fixed."""
IN_NAMES_ALONE = """
supply: fetch
standing, standings: health
making: create
announce: report
absence: outage
room, rooms, places: slots
bodies: memory budget
losses: lost
understand: parse
seen: result, visible
sight: error, cause
wire: connection
MOST, LONGEST, LARGEST: MAX
LEAST, SHORTEST, SMALLEST: MIN
"""
"""Words that are gone, and what to say instead, looked for word by word; capitals concern constants."""
IN_NAMES_AND_TEXT = """
visit, visits, visited: session
follower, followers: worker
errand, errands: long-running command
desk: controller
wish, wishes: command
hasten: run now
rhythm: adaptive poller
unattempted: pending
blame, blames: classify, fault
took off, take off, flying, flies: started, in flight
landed: finished
give back, gives back, given back, gave back: release
hand back, hands back, handed back: reschedule
put back, puts back: add back
let go, lets go: release
"""
"""Those that comments, docstrings and documents do not use either."""
IN_TEXT_ALONE = """
on the wire: in flight
"""


class Gone(NamedTuple):
    """A word that is not used any more, in small letters unless it is a constant's."""

    word: str
    instead: str


def rows() -> list[list[str]]:
    """Return the rows of the glossary's table."""
    lines = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]


def listed(lists: str) -> list[Gone]:
    """Return the words of lists, each line of which has some words and what to say instead."""
    lines = [line.split(": ") for line in lists.split("\n") if line]
    return [Gone(word, instead) for words, instead in lines for word in words.split(", ")]


TERMS = [(term, file.strip("`")) for term, _, file in rows()]
IN_NAMES = listed(IN_NAMES_ALONE + IN_NAMES_AND_TEXT)
IN_TEXT = {
    # A line may be broken where the word has a blank, in a comment too.
    each: re.compile(rf"\b{each.word}\b".replace(" ", r"[\s#-]+"), re.IGNORECASE)
    for each in listed(IN_NAMES_AND_TEXT + IN_TEXT_ALONE)
}


def words_of(name: str) -> str:
    """Return the words of a name (`_hand_back`, `HitWire`), in small letters unless it is a constant."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return f" {' '.join(parts if name.isupper() else [part.lower() for part in parts])} "


def gone_in_name(name: str) -> Iterator[Gone]:
    """Yield the gone words in one identifier; a small word is looked for in constants, too."""
    words = words_of(name)
    for gone in IN_NAMES:
        if f" {gone.word} " in (words if gone.word.isupper() else words.lower()):
            yield gone


def gone_in_text(text: str) -> Iterator[Gone]:
    """Yield the gone words in a text, however its lines are broken."""
    yield from (gone for gone, pattern in IN_TEXT.items() if pattern.search(text))


def names_in(source: str) -> Iterator[str]:
    """Yield every identifier that a Python source gives to something, or uses."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def prose_in(source: str) -> Iterator[str]:
    """Yield a Python source's comments, those of neighbouring lines together, and its docstrings."""
    comments = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield "\n".join(comments)
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def documents() -> list[Path]:
    """Return the documents whose words are checked."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return [path for path in found if path.name not in WITH_WORDS_OF_THEIR_OWN]


def said(gone: Gone, where: str) -> str:
    return f"{where}: {gone.word!r} is gone, say {gone.instead!r}"


def test_the_glossary_is_short_and_the_lists_are_read() -> None:
    assert 10 < len(TERMS) <= 25, "what a reader cannot guess"
    assert len({term for term, _ in TERMS}) == len(TERMS), "one line for each term"
    assert len(IN_NAMES) > 30
    assert len(IN_TEXT) > 20


def is_used(term: str, file: str) -> bool:
    text = (PACKAGE / file).read_text(encoding="utf-8")
    used = re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())
    return re.sub(r"[^a-z]+", " ", term) in used


def test_each_term_is_used_in_the_file_that_is_named() -> None:
    assert [(term, file) for term, file in TERMS if not is_used(term, file)] == []


def test_no_name_has_a_word_that_is_gone() -> None:
    found = [
        said(gone, f"{path.relative_to(ROOT)}, {name}")
        for path in PACKAGE.rglob("*.py")
        for name in {*names_in(path.read_text(encoding="utf-8")), path.stem}
        for gone in gone_in_name(name)
    ]
    assert found == []


def test_no_statement_has_a_word_that_is_gone() -> None:
    found = []
    for path in PACKAGE.rglob("*.sql"):
        text = path.read_text(encoding="utf-8")
        code = re.sub(r"--.*", "", text)
        found += [
            said(gone, path.name) for name in set(re.findall(r"\w+", code)) for gone in gone_in_name(name)
        ]
        found += [said(gone, path.name) for gone in gone_in_text(text)]
    assert found == []


def test_no_comment_docstring_or_document_has_a_word_that_is_gone() -> None:
    code = ((path, prose_in(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py"))
    texts = ((path, [path.read_text(encoding="utf-8")]) for path in documents())
    found = [
        said(gone, str(path.relative_to(ROOT)))
        for path, prose in [*code, *texts]
        for text in prose
        for gone in gone_in_text(text)
    ]
    assert found == []


def test_a_gone_word_is_found_in_names_of_every_form_and_others_are_left_alone() -> None:
    gone = {
        "_hand_back": ["hand back"],
        "HitWire": ["wire"],
        "MOST_NAMED": ["MOST"],
        "VISIT_TIME": ["visit"],
        "free_places": ["places"],
    }
    others = ("most", "almost", "revisited_at", "mushroom", "outlandish", "MAX_NAMED")
    wanted = {**gone, **{name: [] for name in others}}
    assert {name: [each.word for each in gone_in_name(name)] for name in wanted} == wanted


def test_a_gone_word_is_found_in_text_across_lines() -> None:
    comment = "# The lane is given\n# back at once.\n"
    assert [gone.word for gone in gone_in_text("".join(prose_in(comment)))] == ["given back"]
    assert list(gone_in_text("It gives the caller back what it took.")) == []
