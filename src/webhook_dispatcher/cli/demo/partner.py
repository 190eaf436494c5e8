"""A merchant at the Partner API: it logs in, reads what failed and a charge, has an event sent again.

What is answered is compared with the database, and counted for the verdict.
"""

import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self
from uuid import UUID, uuid4

import aiohttp

from webhook_dispatcher.cli.demo.stage import Stage
from webhook_dispatcher.domain.credentials import CLIENT_ID_BYTES, SECRET_BYTES, ClientId, ClientSecret
from webhook_dispatcher.domain.errors import UserError

PATIENCE = aiohttp.ClientTimeout(total=10)


class Partner:
    """One merchant's client; UserError when an answer is not what it should be."""

    def __init__(
        self,
        stage: Stage,
        say: Callable[[str], None],
        session: aiohttp.ClientSession,
        url: str,
        merchant_id: str,
    ) -> None:
        self._stage = stage
        self._say = say
        self._url = url
        self._session = session
        self._merchant_id = merchant_id
        self._headers: dict[str, str] = {}

    @classmethod
    @asynccontextmanager
    async def of(cls, stage: Stage, say: Callable[[str], None], merchant_id: str) -> AsyncIterator[Self]:
        """Make a key for a merchant, as an operator does, and log in with it."""
        url = await stage.api_url()
        client_id = ClientId.from_random(secrets.token_bytes(CLIENT_ID_BYTES), None)
        secret = ClientSecret.from_random(secrets.token_bytes(SECRET_BYTES))
        await stage.admin.create_api_key(merchant_id, str(client_id), secret.hash, "the demo")
        async with aiohttp.ClientSession(timeout=PATIENCE, trust_env=False) as session:
            partner = cls(stage, say, session, url, merchant_id)
            given = {"clientId": str(client_id), "clientSecret": secret.revealed}
            told = await partner._ask("POST", "/auth/token", "/auth/token", json=given)
            partner._headers["Authorization"] = f"Bearer {told['data']['accessToken']}"
            yield partner

    async def list_failed(self, known: set[str]) -> None:
        """List what failed, page by page; `known`, which the database holds, must be among it."""
        listed: set[str] = set()
        query = {"state": "failed", "limit": "100"}
        while True:
            page = await self._ask("GET", "/deliveries?state=failed", "/deliveries", params=query)
            listed |= {found["eventId"] for found in page["data"]}
            if (cursor := page["meta"].get("nextCursor")) is None:
                break
            query["cursor"] = cursor
        self._expect(known <= listed, f"{len(known - listed)} failed deliveries are not in the list")

    async def read_charge(self, event_id: UUID) -> None:
        """Read an event, and then the charge that it is about."""
        path = f"/deliveries/{event_id}"
        event = (await self._ask("GET", "/deliveries/{eventId}", path))["data"]["payload"]
        self._expect(event["id"] == str(event_id), "a delivery holds another event")
        charge_id = event["data"]["object"]["id"]
        charge = (await self._ask("GET", "/charges/{id}", f"/charges/{charge_id}"))["data"]
        self._expect(charge["id"] == charge_id, "the charge is another")

    async def retry(self, event_id: UUID) -> None:
        """Have a failed event sent again."""
        headers = {"Idempotency-Key": str(uuid4())}
        await self._ask(
            "POST", "/deliveries/{eventId}/retry", f"/deliveries/{event_id}/retry", headers=headers
        )

    async def _ask(
        self, method: str, name: str, path: str, headers: dict[str, str] | None = None, **given: Any
    ) -> dict[str, Any]:
        """Ask, say what was answered, and return it."""
        started = time.monotonic()
        try:
            async with self._session.request(
                method, self._url + path, headers={**self._headers, **(headers or {})}, **given
            ) as response:
                answer: dict[str, Any] = await response.json()
                status = response.status
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            self._stage.ledger.note_api(is_right=False)
            raise UserError(f"the Partner API did not answer {method} {name}: {error!r}") from None
        ms = 1000 * (time.monotonic() - started)
        self._say(f"API  {method:<4} /v1{name:<27} {self._merchant_id:<9} {status} {ms:>6.0f} ms")
        is_right = status in (200, 202) and answer["success"] is True
        self._stage.ledger.note_api(is_right)
        if not is_right:
            raise UserError(f"the Partner API answered {method} {name} with {status}: {answer.get('error')}")
        return answer

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._stage.ledger.note_api_fault()
            raise UserError(f"the Partner API: {otherwise}")
