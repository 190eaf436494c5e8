"""Foreign verifiers, and the snippets that merchants are given, judge a captured request of ours."""

import base64
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
OURS = ("python", "node", "php", "go", "java")
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
def test_what_was_changed_or_signed_by_another_is_refused(
    verify: Verify, captured_request: CapturedRequest
) -> None:
    body, header, secret = captured_request.body, captured_request.header, captured_request.secret
    stamp, _, signatures = header.partition(",")
    later = f"t={int(stamp.removeprefix('t=')) + 1},{signatures}"
    judged = {
        "a later stamp": verify(body, later, secret),
        "another secret": verify(body, header, OTHER_SECRET),
    }
    for position in (0, 40, -1):
        changed = bytearray(body)
        changed[position] ^= 1
        judged[f"byte {position}"] = verify(bytes(changed), header, secret)
    assert judged == dict.fromkeys(judged, WRONG)


@every_verifier
def test_either_secret_of_an_overlap_is_accepted(verify: Verify, captured_request: CapturedRequest) -> None:
    header = sign(captured_request.body, SECRET, OTHER_SECRET)
    assert header.count("v1=") == 2
    assert [verify(captured_request.body, header, each) for each in (SECRET, OTHER_SECRET)] == [ACCEPTED] * 2


@every_verifier
def test_a_secret_is_text_to_every_verifier_whatever_its_alphabet(verify: Verify) -> None:
    random = b"\xfb\xff" * 16
    url_safe = "whsec_" + base64.urlsafe_b64encode(random).rstrip(b"=").decode()
    standard = Secret.from_random(random).revealed.decode()
    for secret, other in ((standard, url_safe), (url_safe, standard)):
        assert verify(b"{}", sign(b"{}", secret), secret) == ACCEPTED
        assert verify(b"{}", sign(b"{}", secret), other) == WRONG


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
def test_a_signature_that_begins_with_zeros_is_accepted(verify: Verify) -> None:
    body = b"0"
    while "v1=00" not in (header := sign(body, SECRET)):
        body += b"0"
    assert verify(body, header, SECRET) == ACCEPTED


@our_verifiers
def test_a_wrong_signature_is_no_stale_event_whatever_its_stamp(
    verify: Verify, captured_request: CapturedRequest
) -> None:
    body, ages = captured_request.body, {"now": 0, "old": 310, "future": -400, "1970": int(time.time())}
    judged = {name: verify(body, sign(body, OTHER_SECRET, age=age), SECRET) for name, age in ages.items()}
    assert judged == dict.fromkeys(ages, WRONG)
    assert verify(body, signature(body, (Secret(SECRET),), 0), SECRET) == STALE, "a right one of 1970"


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
def test_damaged_header_is_refused(verify: Verify, captured_request: CapturedRequest) -> None:
    assert judged_by(verify, captured_request, DAMAGE) == dict.fromkeys(DAMAGE, WRONG)


@verifiers_without_types
def test_what_is_no_text_is_refused(verify: Verify, captured_request: CapturedRequest) -> None:
    assert judged_by(verify, captured_request, NO_TEXT) == dict.fromkeys(NO_TEXT, WRONG)


def judged_by(
    verify: Verify, captured: CapturedRequest, changes: dict[str, Callable[[str], Any]]
) -> dict[str, int]:
    return {
        name: verify(captured.body, change(captured.header), captured.secret)
        for name, change in changes.items()
    }


@pytest.mark.parametrize("verify", ["go"], indirect=True)
def test_a_header_sent_twice_is_refused_in_go(verify: Verify, captured_request: CapturedRequest) -> None:
    header = captured_request.header
    assert verify(captured_request.body, [header], captured_request.secret) == ACCEPTED
    assert verify(captured_request.body, [header, header], captured_request.secret) == WRONG
