"""Convoy: an endpoint and a subscription for each merchant, in one project; events by endpoint."""

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.servers.server import Client, Programs, Rival, document

REFRESH = 15.0
"""Seconds until the worker has read the subscriptions, which it does every ten."""
PROJECT = {
    "ratelimit": {"count": 1_000_000, "duration": 60},
    "strategy": {"type": "exponential", "duration": 10, "retry_count": 5},
}


def bootstrapped() -> tuple[str, str]:
    """Return organisation and key, as `bootstrap` printed them: the reader's CONVOY_BOOTSTRAP."""
    said = os.environ.get("CONVOY_BOOTSTRAP", "")
    found = [re.search(rf'"{name}": ?"([^"]+)"', said) for name in ("organisation_id", "api_key")]
    organisation, key = (match[1] if match else "" for match in found)
    if not (organisation and key):
        raise SystemExit("CONVOY_BOOTSTRAP has no key: see benchmarks/servers/README.md")
    return organisation, key


class Convoy(Rival):
    """Its API as of 26.7.3."""

    name, version, port = "Convoy", "26.7.3", 21000

    def __init__(self, programs: Programs, organisation: str, key: str, port: int | None = None) -> None:
        super().__init__(programs, {"Authorization": f"Bearer {key}"}, port)
        self._organisation = organisation
        self._endpoints: dict[str, str] = {}

    async def register(self, urls: Mapping[str, str]) -> None:
        """Make a project, whose own key is used from there on, and its endpoints."""
        async with AsyncExitStack() as stack:
            client = await self._client(stack)
            path = f"/api/v1/projects?orgID={self._organisation}"
            made = await _made(client, path, name="benchmark", type="outgoing", config=PROJECT)
        self._project = f"/api/v1/projects/{made['project']['uid']}"
        self._headers = {"Authorization": f"Bearer {made['api_key']['key']}"}
        await super().register(urls)
        await asyncio.sleep(REFRESH)

    async def add(self, client: Client, merchant: str, url: str) -> None:
        """Make endpoint and subscription."""
        path = f"{self._project}/endpoints"
        endpoint = (await _made(client, path, name=merchant, url=url, owner_id=merchant))["uid"]
        types = {"event_types": ["*"]}
        path = f"{self._project}/subscriptions"
        await _made(client, path, name=merchant, endpoint_id=endpoint, filter_config=types)
        self._endpoints[merchant] = endpoint

    def event(self, merchant: str, text: str) -> tuple[str, str]:
        """Publish to an endpoint."""
        head = document(endpoint_id=self._endpoints[merchant], event_type="order.created")
        return f"{self._project}/events", f'{head[:-1]}, "data": {text}}}'


async def _made(client: Client, path: str, /, **members: Any) -> Any:
    return json.loads(await client.ask("POST", path, document(**members)))["data"]
