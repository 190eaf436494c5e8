"""Merchants in a list: by id, or those that are behind, failing, busy or paused."""

from dataclasses import dataclass

from webhook_dispatcher.console.calls import Answer, Asked, Moved, Shown
from webhook_dispatcher.console.names import MAX_ID_LENGTH
from webhook_dispatcher.console.pages.filters import said
from webhook_dispatcher.console.rendering import merchant_path, with_query
from webhook_dispatcher.storage.console.filters import FilterRefused
from webhook_dispatcher.storage.console.merchants import (
    MAX_WAITING,
    MerchantOrder,
    MerchantPage,
    Merchants,
)


@dataclass(frozen=True, slots=True)
class MerchantList:
    """Lists merchants."""

    merchants: Merchants

    async def show(self, asked: Asked) -> Answer:
        """Show one page."""
        prefix, after = asked.given("prefix"), asked.given("after") or None
        order = next((each for each in MerchantOrder if each == asked.given("order")), MerchantOrder.ID)
        page: MerchantPage | None = None
        refused = ""
        try:
            page = await self.merchants.list(asked.key, order, prefix, after)
        except FilterRefused as error:
            refused = said(asked, error)
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
        return Shown("merchants.html", facts, 422 if refused else 200)

    async def open(self, asked: Asked) -> Answer:
        """Lead to the page of a merchant by its id, also where nothing is known of that merchant yet."""
        merchant_id = asked.given("merchant")
        if not 1 <= len(merchant_id) <= MAX_ID_LENGTH or not merchant_id.isprintable():
            return Moved("/merchants")
        return Moved(with_query(merchant_path(merchant_id), {"new": "yes"}))
