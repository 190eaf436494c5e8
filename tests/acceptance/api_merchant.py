"""A merchant who uses the Partner API: the real program on a real database, asked by a real client."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import aiohttp
from yarl import URL

from tests.acceptance.api_document import undocumented
from tests.acceptance.api_process import ANYWHERE, ROOT
from tests.acceptance.installation import Installation
from tests.acceptance.lanes_names import names_lane
from tests.acceptance.processes import Daemon
from tests.waiting import until_found
from webhook_dispatcher.api.operations.commands import CommandIds

API = ("webhook_dispatcher", "api")


@dataclass(frozen=True)
class Reply:
    """An answer whose envelope was looked at."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        assert (self.json["success"], set(self.json)) == (True, {"success", "data", "meta"}), self.json
        return self.json["data"]

    @property
    def code(self) -> int:
        assert (self.json["success"], set(self.json)) == (False, {"success", "error", "meta"}), self.json
        code: int = self.json["error"]["code"]
        return code


@dataclass
class Merchant:
    """One merchant's client. token: None sends none."""

    base: str
    client_id: str
    client_secret: str
    token: str | None = None
    session: aiohttp.ClientSession = field(default_factory=aiohttp.ClientSession)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    async def ask(
        self, method: str, path: str, body: object = None, key: str | None = "", **headers: str
    ) -> Reply:
        """Send a request; key: an Idempotency-Key, by default a new one for what needs one, None for none."""
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if key is not None and method == "POST":
            headers["Idempotency-Key"] = key or str(uuid4())
        elif key:
            headers["Idempotency-Key"] = key
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None:
            headers.setdefault("Content-Type", "application/json")
        # As it is written: aiohttp would decode %61.
        url = URL(self.base + path, encoded=True)
        async with self.session.request(method, url, data=data, headers=headers) as response:
            reply = Reply(response.status, dict(response.headers), await response.read())
        assert not names_lane(reply.body), reply
        assert (wrong := undocumented(method, path, reply.status, reply.headers, reply.body)) is None, wrong
        return reply

    async def carried_out(self, path: str, key: str = "") -> Reply:
        """POST with one key until it is carried out; a busy daemon may take longer than one request waits."""
        key, replies = key or str(uuid4()), list[Reply]()

        async def is_answered() -> bool:
            replies.append(await self.ask("POST", path, key=key))
            return replies[-1].status != 202

        await until_found(is_answered)
        return replies[-1]

    async def log_in(self) -> Reply:
        """Fetch a token, as a client does."""
        credentials = {"clientId": self.client_id, "clientSecret": self.client_secret}
        reply = await self.ask("POST", "/v1/auth/token", credentials, key=None)
        if reply.status == 200:
            self.token = reply.data["accessToken"]
        return reply


async def command_path(installation: Installation, number: int) -> str:
    """Return where a merchant asks for the command of this number."""
    key = await installation.owner.fetchval("SELECT key FROM webhook.cursor_key")
    return f"/v1/commands/{CommandIds(key).encode(number)}"


@dataclass(frozen=True)
class PartnerApi:
    """The running program of an installation."""

    installation: Installation
    daemon: Daemon
    port: int
    ops_port: int

    def client(self, merchant_id: str) -> Merchant:
        """Make a key for a merchant, as an operator does."""
        made = self.installation.command("api-key", "create", merchant_id, "--name", "a test", "--json")
        assert made.returncode == 0, made.stderr
        key = json.loads(made.stdout)
        base = f"http://127.0.0.1:{self.port}"
        return Merchant(base, key["client_id"], key["client_secret"])

    @asynccontextmanager
    async def merchant(self, merchant_id: str) -> AsyncIterator[Merchant]:
        """Make a key for a merchant, and log in with it."""
        async with self.client(merchant_id) as merchant:
            assert (await merchant.log_in()).status == 200
            yield merchant


async def start_api(
    installation: Installation, *, program: Sequence[str] = API, **settings: str
) -> PartnerApi:
    """Start one process of the API beside the installation's daemons; it ends with them."""
    log_file = installation.folder / f"api-{len(installation.daemons) + 1}.log"
    given = {
        **ANYWHERE,
        **installation.database.settings("webhook_api"),
        "EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
        "EGRESS_ALLOW_HTTP": "true",
        **settings,
    }
    daemon = Daemon.spawn(given, log_file, ROOT, program)
    installation.daemons.append(daemon)
    line = await daemon.logged("api.started")
    return PartnerApi(installation, daemon, line["port"], line["ops_port"])
