"""Foreign verifiers, and the snippets that merchants are given, judge a captured request of ours."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.signature_verifiers import CapturedRequest, Verifiers, Verify, capture
from webhook_dispatcher.domain.signing import Secret, signature

SECRET = Secret.from_random(bytes(range(32))).revealed.decode()
OTHER_SECRET = Secret.from_random(bytes(range(32, 64))).revealed.decode()
ACCEPTED, STALE, WRONG = 200, 400, 401
OURS = ("python", "node", "php", "go")
STRIPES = ("stripe of PyPI", "stripe of npm")
every_verifier = pytest.mark.parametrize("verify", [*STRIPES, *OURS], indirect=True)
our_verifiers = pytest.mark.parametrize("verify", OURS, indirect=True)
verifiers_without_types = pytest.mark.parametrize("verify", ["python", "node", "php"], indirect=True)


@pytest.fixture(scope="session")
def verifiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verifiers]:
    with ExitStack() as stack:
        yield Verifiers(tmp_path_factory.mktemp("verifiers"), stack)


@pytest.fixture
def verify(request: pytest.FixtureRequest, verifiers: Verifiers) -> Verify:
    return verifiers[request.param]


@pytest.fixture
async def captured_request() -> CapturedRequest:
    return await capture(SECRET, int(time.time()))


def sign(body: bytes, *secrets: str, age: int = 0) -> str:
    return signature(body, tuple(Secret(secret) for secret in secrets), int(time.time()) - age)


async def test_what_a_daemon_sent_is_accepted_and_refused_with_one_byte_changed(
    verifiers: Verifiers, installation: Installation
) -> None:
    await installation.configure("m1")
    await installation.start()
    await installation.emit("m1", '{"id":"ch_1",  "amount":1.10,"name":"\\u00e9 é"}')
    [arrival] = await installation.arrived(1)
    header = arrival.headers["service-signature"]
    secret = installation.receiver.secrets["m1"].revealed.decode()
    for name in ("stripe of PyPI", "python", "node"):
        verify = verifiers[name]
        assert verify(arrival.body, header, secret) == ACCEPTED, name
        assert verify(arrival.body[:-1] + b" ", header, secret) == WRONG, name


@every_verifier
def test_captured_request_is_accepted(verify: Verify, captured_request: CapturedRequest) -> None:
    assert verify(captured_request.body, captured_request.header, captured_request.secret) == ACCEPTED


@every_verifier
@pytest.mark.parametrize("position", [0, 40, -1])
def test_one_changed_byte_is_refused(
    verify: Verify, position: int, captured_request: CapturedRequest
) -> None:
    changed = bytearray(captured_request.body)
    changed[position] ^= 1
    assert verify(bytes(changed), captured_request.header, captured_request.secret) == WRONG


@every_verifier
def test_changed_stamp_is_refused(verify: Verify, captured_request: CapturedRequest) -> None:
    stamp, _, signatures = captured_request.header.partition(",")
    later = f"t={int(stamp.removeprefix('t=')) + 1},{signatures}"
    assert verify(captured_request.body, later, captured_request.secret) == WRONG


@every_verifier
def test_another_secret_is_refused(verify: Verify, captured_request: CapturedRequest) -> None:
    assert verify(captured_request.body, captured_request.header, OTHER_SECRET) == WRONG


@every_verifier
@pytest.mark.parametrize("secret", [SECRET, OTHER_SECRET], ids=["newest", "older"])
def test_either_secret_of_an_overlap_is_accepted(
    verify: Verify, secret: str, captured_request: CapturedRequest
) -> None:
    header = sign(captured_request.body, SECRET, OTHER_SECRET)
    assert header.count("v1=") == 2
    assert verify(captured_request.body, header, secret) == ACCEPTED


@every_verifier
def test_request_older_than_the_tolerance_is_refused(
    verify: Verify, captured_request: CapturedRequest, request: pytest.FixtureRequest
) -> None:
    body = captured_request.body
    foreign = request.node.callspec.params["verify"] in STRIPES
    assert verify(body, sign(body, SECRET, age=200), SECRET) == ACCEPTED
    assert verify(body, sign(body, SECRET, age=310), SECRET) == (WRONG if foreign else STALE)


@our_verifiers
def test_request_from_the_future_is_stale_too(verify: Verify, captured_request: CapturedRequest) -> None:
    body = captured_request.body
    assert verify(body, sign(body, SECRET, age=-290), SECRET) == ACCEPTED
    assert verify(body, sign(body, SECRET, age=-400), SECRET) == STALE


@our_verifiers
@pytest.mark.parametrize("age", [0, 310, -400, int(time.time())], ids=["now", "old", "future", "1970"])
def test_a_wrong_signature_is_no_stale_event_whatever_its_stamp(
    verify: Verify, age: int, captured_request: CapturedRequest
) -> None:
    assert verify(captured_request.body, sign(captured_request.body, OTHER_SECRET, age=age), SECRET) == WRONG


@our_verifiers
def test_a_signature_of_1970_is_stale(verify: Verify, captured_request: CapturedRequest) -> None:
    header = signature(captured_request.body, (Secret(SECRET),), 0)
    assert verify(captured_request.body, header, SECRET) == STALE


DAMAGE: dict[str, Callable[[str], Any]] = {
    "missing": lambda header: None,
    "empty": lambda header: "",
    "nothing in it": lambda header: "t=,v1=",
    "commas": lambda header: ",,=,",
    "no signature": lambda header: header.partition(",")[0],
    "no stamp": lambda header: header.partition(",")[2],
    "two stamps": lambda header: header + "," + header.partition(",")[0],
    "sent twice, joined by some servers": lambda header: f"{header}, {header}",
    "sent twice, joined by others": lambda header: f"{header},{header}",
    "another scheme": lambda header: header.replace("v1=", "v0="),
    "cut short": lambda header: header[:-1],
    "too long": lambda header: header + "0",
    "not ASCII": lambda header: header[:-1] + "é",
    "undecodable": lambda header: header.partition(",")[0] + ",v1=\udc80",
    "undecodable stamp": lambda header: header.replace("t=", "t=\udc80"),
    "digits of another script": lambda header: "t=١٢٣," + header.partition(",")[2],
    "NUL": lambda header: header.replace(",", "\0,"),
    "line break": lambda header: header.replace(",", "\n,v1=00\n,").replace("t=", "t=\n1"),
    "upper case": lambda header: header.partition("v1=")[0] + "v1=" + header.partition("v1=")[2].upper(),
    "signed stamp": lambda header: header.replace("t=", "t=+"),
    "stamp with a point": lambda header: header.replace(",", ".5,"),
    "huge stamp": lambda header: header.replace("t=", "t=9999999999999"),
    "very long": lambda header: "t=" + "9" * 100_000 + "," + "v1=00," * 10_000,
}
NO_TEXT: dict[str, Callable[[str], Any]] = {
    "array of one": lambda header: [header],
    "array of two": lambda header: [header, header],
    "array of parts": lambda header: header.split(","),
    "empty array": lambda header: [],
    "array of arrays": lambda header: [[header]],
    "number": lambda header: 42,
    "true": lambda header: True,
}


@our_verifiers
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_header_is_refused(
    verify: Verify, damage: Callable[[str], Any], captured_request: CapturedRequest
) -> None:
    assert verify(captured_request.body, damage(captured_request.header), captured_request.secret) == WRONG


@verifiers_without_types
@pytest.mark.parametrize("wrap", NO_TEXT.values(), ids=NO_TEXT)
def test_what_is_no_text_is_refused(
    verify: Verify, wrap: Callable[[str], Any], captured_request: CapturedRequest
) -> None:
    assert verify(captured_request.body, wrap(captured_request.header), captured_request.secret) == WRONG


@pytest.mark.parametrize("verify", ["go"], indirect=True)
def test_a_header_sent_twice_is_refused_in_go(verify: Verify, captured_request: CapturedRequest) -> None:
    header = captured_request.header
    assert verify(captured_request.body, [header], captured_request.secret) == ACCEPTED
    assert verify(captured_request.body, [header, header], captured_request.secret) == WRONG
