"""Svix: an application for each merchant, with one endpoint; messages of a type."""

import os

from benchmarks.servers.server import Client, Rival, document


def headers() -> dict[str, str]:
    """Return the headers that let us in: the reader's SVIX_TOKEN."""
    if not (token := os.environ.get("SVIX_TOKEN")):
        raise SystemExit("SVIX_TOKEN is not set: see benchmarks/servers/README.md")
    return {"Authorization": f"Bearer {token}"}


class Svix(Rival):
    """Its API as of server 1.100.0."""

    name, version, port = "Svix", "1.100.0", 21200

    async def add(self, client: Client, merchant: str, url: str) -> None:
        """Make application and endpoint."""
        await client.ask("POST", "/api/v1/app/", document(name=merchant, uid=merchant))
        await client.ask("POST", f"/api/v1/app/{merchant}/endpoint/", document(url=url, version=1))

    def event(self, merchant: str, text: str) -> tuple[str, str]:
        """Publish to an application."""
        return f"/api/v1/app/{merchant}/msg/", f'{{"eventType": "order.created", "payload": {text}}}'
