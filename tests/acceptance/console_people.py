"""People who use the console: the real program on a real database, asked by a client that keeps cookies."""

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from html import unescape

import aiohttp
from yarl import URL

from tests.acceptance.api_process import ROOT
from tests.acceptance.installation import Installation
from tests.acceptance.lanes_names import names_lane
from tests.acceptance.processes import Daemon
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.password import SALT_BYTES, PasswordParameters, Verifier, prove
from webhook_dispatcher.storage.console import accounts

CONSOLE = ("webhook_dispatcher", "console")
PASSWORD = "correct horse battery staple"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
_TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')


@dataclass(frozen=True)
class Page:
    """An answer, not followed."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """What it holds, as it was written before it was escaped."""
        return unescape(self.body.decode())

    @property
    def location(self) -> str:
        return self.headers["Location"]


@dataclass
class Client:
    """A browser without scripts. token: of the forms of the page that was shown last."""

    base: str
    session: aiohttp.ClientSession
    token: str = ""

    async def get(self, path: str, **headers: str) -> Page:
        """Ask for a page; nothing is followed."""
        return await self.ask("GET", path, None, headers)

    async def post(self, path: str, fields: Mapping[str, str] | Sequence[tuple[str, str]] = ()) -> Page:
        """Send a form of ours."""
        given = list(fields.items()) if isinstance(fields, Mapping) else list(fields)
        return await self.ask("POST", path, [("token", self.token), *given], SAME_ORIGIN)

    async def ask(
        self,
        method: str,
        path: str,
        form: Sequence[tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Page:
        """Send a request as it is written."""
        url = URL(self.base + path, encoded=True)
        async with self.session.request(
            method, url, data=form, headers=headers, allow_redirects=False
        ) as response:
            page = Page(response.status, dict(response.headers), await response.read())
        assert not names_lane(page.body + page.headers.get("Location", "").encode()), page.text
        if (found := _TOKEN.search(page.body.decode("utf-8", "replace"))) is not None:
            self.token = found[1]
        return page

    async def sign_in(self, name: str, password: str = PASSWORD) -> Page:
        """Sign in; the next forms are of this session."""
        page = await self.post("/sign-in", {"name": name, "password": password})
        if page.status == 303:
            await self.get("/account")
        return page


@asynccontextmanager
async def browser(base: str) -> AsyncIterator[Client]:
    """Have a browser in which nobody is signed in."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        yield Client(base, session)


@dataclass(frozen=True)
class RunningConsole:
    """The running program of an installation."""

    installation: Installation
    daemon: Daemon
    port: int

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stranger(self) -> AbstractAsyncContextManager[Client]:
        """Have a browser in which nobody is signed in."""
        return browser(self.base)

    @asynccontextmanager
    async def person(self, role: Role = Role.OPERATOR, name: str | None = None) -> AsyncIterator[Client]:
        """Make an account, and sign in with it."""
        chosen = name or f"{role}-{secrets.token_hex(4)}"
        await self.account(chosen, role)
        async with self.stranger() as client:
            assert (await client.sign_in(chosen)).status == 303
            yield client

    async def account(self, name: str, role: Role, password: str = PASSWORD) -> None:
        """Make an account, as an administrator does."""
        verifier = cheap_verifier(password)
        assert await accounts.add(self.installation.admin, name, role, verifier, "a test")


def cheap_verifier(password: str) -> Verifier:
    """Return what is kept of a password, at a twentieth of what it costs otherwise."""
    parameters = PasswordParameters(secrets.token_bytes(SALT_BYTES), memory_kib=8192, passes=1, parallelism=1)
    return Verifier(parameters, sha256(prove(password, parameters)).digest())


async def start_console(installation: Installation, **settings: str) -> RunningConsole:
    """Start one process of the console beside the installation's daemons; it ends with them."""
    log_file = installation.folder / f"console-{len(installation.daemons) + 1}.log"
    given = {
        "CONSOLE_ADDRESS": "127.0.0.1:0",
        "LOG_FORMAT": "json",
        "LOG_LEVEL": "debug",
        **installation.database.settings("webhook_console"),
        "EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
        "EGRESS_ALLOW_HTTP": "true",
        **settings,
    }
    daemon = Daemon.spawn(given, log_file, ROOT, CONSOLE)
    installation.daemons.append(daemon)
    line = await daemon.logged("console.started")
    return RunningConsole(installation, daemon, line["port"])
