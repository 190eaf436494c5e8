"""One field that finds a merchant, an event, a charge, an API key or a command."""

from dataclasses import dataclass

from webhook_dispatcher.console.calls import Page, Redirect, Request, Response
from webhook_dispatcher.console.pages.acting import status_badge
from webhook_dispatcher.console.pages.filters import said
from webhook_dispatcher.console.rendering import delivery_path, merchant_path
from webhook_dispatcher.storage.console.filters import FilterRefused
from webhook_dispatcher.storage.console.search import Search, SearchResult


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Looks for what a text may be; where that is one thing, leads to it."""

    search: Search

    async def show(self, request: Request) -> Response:
        """Show what was found."""
        text = request.query_value("q")
        try:
            found = await self.search.find(request.key, text)
        except FilterRefused as error:
            return Page("search.html", {"query": text, "found": None, "refused": said(request, error)}, 422)
        if found.count == 1:
            return Redirect(_only(found))
        badge = status_badge(found.command, request.reader) if found.command else None
        return Page("search.html", {"query": text, "found": found, "refused": "", "status_badge": badge})


def _only(found: SearchResult) -> str:
    if found.merchants:
        return merchant_path(found.merchants[0].merchant_id)
    if found.key_of is not None:
        return f"{merchant_path(found.key_of)}#keys"
    if found.command is not None:
        return f"/commands/{found.command.id}"
    [delivery] = [*found.event.deliveries, *found.charge.deliveries]
    return delivery_path(delivery.event_id)
