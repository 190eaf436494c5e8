"""What programs say in English is recognised, every sentence of it, and said in other languages."""

import ast
import re
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import webhook_dispatcher
from tests.unit.test_guard import URLS
from webhook_dispatcher.diagnosis.reasons import KEYS, MAX_READ, OTHER, read
from webhook_dispatcher.diagnosis.vocabulary import say
from webhook_dispatcher.transport.addresses import forbidden_use, parse_address
from webhook_dispatcher.transport.failures import (
    ConnectFailed,
    Disconnected,
    HandshakeFailed,
    Malformed,
    NameFailed,
    OutOfTime,
    Phase,
    Unsendable,
    classify,
)
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.proxy import classify_proxy
from webhook_dispatcher.words import template

SOURCE = Path(webhook_dispatcher.__file__).parent
SAYING = {"Forbidden", "_malformed", "CommandRejected", "_rejected", "reject"}
"""Those that are given a sentence for operators."""
SPOKEN = (
    "transport/guard.py",
    "domain/command.py",
    "storage/controls.py",
    *(
        f"dispatch/control/{name}.py"
        for name in ("controller", "mass_cancel", "sample_event", "long_running")
    ),
)
LISTED = {
    "app/daemon.py": {"readiness"},
    "dispatch/attempt.py": {"_BADLY_SIGNED"},
    "dispatch/health/own_faults.py": {"reasons"},
    "dispatch/health/outage.py": {"failed"},
    "dispatch/recorder.py": {"_REFUSED"},
    "domain/event.py": {"fault"},
    "transport/certificates.py": {"CertificateRefused", "words_for", "_expired", "_misnamed"},
    "transport/failures.py": {"Phase"},
    "transport/proxy.py": {"detail"},
    "transport/resolver.py": {"_WORDS", "OSError", "ResolverFault", "TooManyAddresses", "Forbidden"},
    "transport/sender.py": {"Failure"},
}
"""Where sentences are not given to one of those, but put together: by a function or constant."""


WITH_DOCSTRINGS = (ast.FunctionDef, ast.ClassDef)


def sentences(node: ast.AST) -> Iterator[str]:
    """Find the sentences in some code, with a letter for what they are filled with."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from sentences(child)


def name_of(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case _:
            return ""


def spoken(path: str, names: set[str]) -> set[str]:
    tree = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
    found = {each for node in ast.walk(tree) if name_of(node) in names for each in sentences(node)}
    documented = {ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, WITH_DOCSTRINGS)}
    return found - documented


ALL = sorted(
    set.union(
        *(spoken(path, SAYING) for path in SPOKEN), *(spoken(path, names) for path, names in LISTED.items())
    )
)


def test_whatever_is_listed_says_something() -> None:
    listed = [(path, name) for path, names in LISTED.items() for name in names]
    assert [entry for entry in listed if not spoken(entry[0], {entry[1]})] == []
    assert [path for path in SPOKEN if not spoken(path, SAYING)] == []


@pytest.mark.parametrize("sentence", ALL)
def test_every_sentence_of_ours_is_known(sentence: str) -> None:
    found = read(sentence)
    assert found.key != OTHER
    assert say(found, "ru", UTC) != say(found, "en", UTC) != say(found, "uz", UTC)


def failed(error: Exception, cause: Exception | None = None) -> Exception:
    error.__cause__ = cause
    return error


ENDS = [
    OutOfTime(10),
    failed(NameFailed(), OSError(None, "name does not exist")),
    failed(ConnectFailed(), RuntimeError()),
    failed(HandshakeFailed(), ConnectionResetError(104, "")),
    failed(HandshakeFailed()),
    Disconnected(),
    ConnectionResetError(104, ""),
    Malformed(),
    Unsendable(),
]


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("phase", Phase)
def test_why_an_attempt_failed_is_known(error: Exception, phase: Phase) -> None:
    for failure in (classify(error, phase), classify_proxy(error, phase)):
        found = read(failure.detail)
        assert say(found, "en", UTC) == failure.detail
        told = say(found, "ru", UTC)
        # What stays are names of errors.
        assert set(re.findall("[A-Za-z]+", told)) <= {"TLS", "HTTP", "ECONNRESET"}, told


@pytest.mark.parametrize("url", [url for url, _, reason in URLS if reason.startswith("url:")])
def test_all_refusals_of_the_guard_are_known(url: str) -> None:
    fault = Guard(EgressPolicy()).find_fault(url)
    assert fault is not None
    assert read(fault).key != OTHER
    assert say(read(fault), "en", UTC) == fault
    assert (
        say(read(f"the URL is refused: {fault}"), "ru", UTC) == f"URL отклонён: {say(read(fault), 'ru', UTC)}"
    )


@pytest.mark.parametrize("address", ["10.1.1.1", "127.0.0.1", "169.254.169.254", "fc00::1", "::1"])
def test_what_an_address_is_set_aside_for_is_known(address: str) -> None:
    parsed = parse_address(address)
    assert parsed is not None
    use = forbidden_use(parsed)
    assert use is not None
    assert read(use).key.startswith("use_")


@pytest.mark.parametrize(
    "text",
    ["", "a reason of version 9", "x" * (MAX_READ + 1), "Your plan needs an upgrade", "two\nlines", "{text}"],
)
def test_what_is_not_known_is_said_as_it_stands(text: str) -> None:
    assert (read(text).key, read(text).facts) == (OTHER, {"text": text})


@given(st.sampled_from(KEYS), st.text("abc {}<7", min_size=1, max_size=9))
def test_english_is_said_by_the_same_letters(key: str, fact: str) -> None:
    english = template(f"said.{key}", "en")
    written = english.format(**dict.fromkeys(facts_of(english), fact))
    assert say(read(written), "en", UTC) == written


def facts_of(english: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(english) if name is not None]


@pytest.mark.parametrize("key", KEYS)
def test_no_text_hides_one_that_follows(key: str) -> None:
    english = template(f"said.{key}", "en")
    assert read(english.format(**dict.fromkeys(facts_of(english), "x"))).key == key
