"""Outpost: a tenant for each merchant, with one destination; events by topic."""

from benchmarks.servers.server import Client, Rival, document

HEADERS = {"Authorization": "Bearer benchmark"}


class Outpost(Rival):
    """Its API as of 1.2.0."""

    name, version, port = "Outpost", "1.2.0", 21100

    async def add(self, client: Client, merchant: str, url: str) -> None:
        """Make tenant and destination."""
        await client.ask("PUT", f"/api/v1/tenants/{merchant}", "{}")
        destination = document(type="webhook", topics=["*"], config={"url": url})
        await client.ask("POST", f"/api/v1/tenants/{merchant}/destinations", destination)

    def event(self, merchant: str, text: str) -> tuple[str, str]:
        """Publish to a tenant."""
        head = document(tenant_id=merchant, topic="order.created", eligible_for_retry=True)
        return "/api/v1/publish", f'{head[:-1]}, "data": {text}}}'
