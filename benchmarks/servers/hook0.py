"""Hook0: one application, with a subscription for each merchant's label; events by label."""

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

from benchmarks.servers.server import Client, Rival, document

HEADERS = {"Authorization": "Bearer 00000000-0000-4000-8000-000000000000"}
"""compose.yaml's MASTER_API_KEY, which may do all but publish."""
PERSON = {
    "first_name": "Bench",
    "last_name": "Mark",
    "email": "somebody@example.com",
    "password": "Correct-Horse-7-Battery",
}
EVENT_TYPE = {"service": "charge", "resource_type": "order", "verb": "created"}


class Hook0(Rival):
    """Its API as of 1.0.1."""

    name, version, port = "Hook0", "1.0.1", 21300

    async def register(self, urls: Mapping[str, str]) -> None:
        """Make organization, token, application and type of event, then the subscriptions."""
        async with AsyncExitStack() as stack:
            client = await self._client(stack)
            organization = (await _made(client, "register", **PERSON))["organization_id"]
            owned = {"name": "benchmark", "organization_id": organization}
            token = (await _made(client, "service_token", **owned))["biscuit"]
            self._application = (await _made(client, "applications", **owned))["application_id"]
            made = await _made(client, "event_types", application_id=self._application, **EVENT_TYPE)
            self._event_type = made["event_type_name"]
        self._headers = {"Authorization": f"Bearer {token}"}
        await super().register(urls)

    async def add(self, client: Client, merchant: str, url: str) -> None:
        """Subscribe a merchant to its label."""
        await _made(
            client,
            "subscriptions",
            application_id=self._application,
            is_enabled=True,
            event_types=[self._event_type],
            labels={"merchant": merchant},
            target={"type": "http", "method": "POST", "url": url, "headers": {}},
        )

    def event(self, merchant: str, text: str) -> tuple[str, str]:
        """Publish with a merchant's label."""
        return "/api/v1/event", document(
            application_id=self._application,
            event_type=self._event_type,
            labels={"merchant": merchant},
            occurred_at=datetime.now(UTC).isoformat(),
            payload_content_type="application/json",
            payload=text,
        )


async def _made(client: Client, name: str, /, **members: Any) -> Any:
    return json.loads(await client.ask("POST", f"/api/v1/{name}", document(**members)))
