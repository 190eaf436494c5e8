"""Passes what was received on to a merchant's own receiver on this machine, as it came."""

import ipaddress
import re
from typing import Self
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from webhook_dispatcher.local.exchange import Answer, Exchange

TIMEOUT_SECONDS = 10
"""A sender waits for no longer (contract 2.1)."""
MAX_SHOWN = 2_000
OF_THE_CONNECTION = ("host", "connection", "keep-alive", "expect")
"""Headers that are about our connection to the sender, and not about what was sent."""
AUTOMATIC = ("accept", "accept-encoding", "content-type", "user-agent")
"""Headers that the client would add of its own."""


def fault_of(url: str) -> str | None:
    """Say what keeps us from forwarding to a URL: it must be one of plain http, on this machine."""
    wanted = "must be a URL such as http://localhost:3000/hook"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return wanted
    if parts.scheme != "http" or not host or port == 0 or not re.fullmatch("[!-~]+", url):
        return wanted
    if host == "localhost":
        return None
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    return None if is_here else f"{host} is not this machine: {wanted}"


class Forwarder:
    """Sends to one URL while it is entered. It answers as that did: with 502 or 504 if that did not."""

    def __init__(self, url: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._url = URL(url, encoded=True)
        self._timeout_seconds = timeout_seconds
        self._client: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._client = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=AUTOMATIC,
            timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._client is not None
        await self._client.close()

    async def forward(self, exchange: Exchange) -> Answer:
        """Send a request on, headers and body as they are, and return what came of it."""
        assert self._client is not None
        headers = [field for field in exchange.fields if field[0].lower() not in OF_THE_CONNECTION]
        try:
            async with self._client.request(
                exchange.method, self._url, data=exchange.body, headers=headers, allow_redirects=False
            ) as response:
                body = (await response.content.read(MAX_SHOWN)).decode(errors="replace")
                return Answer(response.status, f"forwarded: {response.status} {response.reason}\n{body}")
        except TimeoutError:
            return Answer(504, f"forwarded: no answer within {self._timeout_seconds:g} s")
        except aiohttp.ClientConnectorError:
            return Answer(502, f"not forwarded: nothing listens at {self._url}")
        except (aiohttp.ClientError, OSError) as error:
            return Answer(502, f"forwarded: {error}")
