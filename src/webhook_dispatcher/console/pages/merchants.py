"""Merchants in a list: by id, or those that are behind, failing, busy or paused; and all their API keys."""

from dataclasses import dataclass

from webhook_dispatcher.console.calls import Page, Redirect, Request, Response
from webhook_dispatcher.console.names import MAX_ID_LENGTH
from webhook_dispatcher.console.pages.filters import said
from webhook_dispatcher.console.rendering import merchant_path, with_query
from webhook_dispatcher.storage.console.filters import FilterRefused
from webhook_dispatcher.storage.console.merchants import (
    MAX_WAITING,
    ApiKeyPage,
    MerchantOrder,
    MerchantPage,
    Merchants,
)


@dataclass(frozen=True, slots=True)
class MerchantList:
    """Lists merchants."""

    merchants: Merchants

    async def show(self, request: Request) -> Response:
        """Show one page."""
        if request.query_value("view") == "keys":
            return await self._keys(request)
        prefix, after = request.query_value("prefix"), request.query_value("after") or None
        order = next(
            (each for each in MerchantOrder if each == request.query_value("order")), MerchantOrder.ID
        )
        page: MerchantPage | None = None
        refused = ""
        try:
            page = await self.merchants.list(request.key, order, prefix, after)
        except FilterRefused as error:
            refused = said(request, error)
        kept = {"prefix": prefix, "order": "" if order is MerchantOrder.ID else order}
        facts = {
            "page": page,
            "prefix": prefix,
            "order": order,
            "orders": list(MerchantOrder),
            "refused": refused,
            "max_waiting": MAX_WAITING,
            "is_later_page": after is not None,
            "first_page": with_query("/merchants", kept),
            "next_page": with_query("/merchants", {**kept, "after": page.next if page else None}),
        }
        return Page("merchants.html", facts, 422 if refused else 200)

    async def _keys(self, request: Request) -> Response:
        """Show one page of the API keys of all merchants."""
        after = request.query_value("after") or None
        page, refused = ApiKeyPage([]), ""
        try:
            page = await self.merchants.all_api_keys(request.key, after)
        except FilterRefused as error:
            refused = said(request, error)
        facts = {
            "page": page,
            "refused": refused,
            "is_later_page": after is not None,
            "next_page": with_query("/merchants", {"view": "keys", "after": page.next}),
        }
        return Page("api_keys.html", facts, 422 if refused else 200)

    async def open(self, request: Request) -> Response:
        """Lead to the page of a merchant by its id, also where nothing is known of that merchant yet."""
        merchant_id = request.query_value("merchant")
        if not 1 <= len(merchant_id) <= MAX_ID_LENGTH or not merchant_id.isprintable():
            return Redirect("/merchants")
        return Redirect(with_query(merchant_path(merchant_id), {"new": "yes"}))
