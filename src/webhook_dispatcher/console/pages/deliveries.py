"""The delivery log: a filter that stands in the URL, and its pages, the newest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Page, Redirect, Request, Response
from webhook_dispatcher.console.pages.acts import MASS, hindrance
from webhook_dispatcher.console.pages.filters import ENDED, FieldRefused, FilterFields, said
from webhook_dispatcher.console.rendering import with_query
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.storage.console.deliveries import Deliveries, DeliveryPage
from webhook_dispatcher.storage.console.filters import FilterRefused, Refusal
from webhook_dispatcher.storage.console.merchants import Merchants

PAGE = 50


@dataclass(frozen=True, slots=True)
class MassButton:
    """A button for what can be done to all that match. why_not: why not to these; empty where it can."""

    name: str
    is_destructive: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class DeliveryLog:
    """Lists deliveries."""

    deliveries: Deliveries
    merchants: Merchants

    async def show(self, request: Request) -> Response:
        """Show one page. A filter that cannot be is refused in words, with the form as it was filled in."""
        fields, after = FilterFields.from_query(request), request.query_value("after") or None
        if (meant := fields.with_offsets(request.reader.zone)) != fields:
            # A link that is sent to somebody in another zone means the same there.
            return Redirect(with_query("/deliveries", {**dict(meant.pairs), "after": after}))
        page: DeliveryPage | None = None
        types = await self.deliveries.types()
        refused, is_by_end = "", False
        try:
            wanted = fields.wanted(request.reader.zone)
            is_by_end = wanted.is_by_end
            if wanted.type is not None and wanted.type not in types:
                raise FilterRefused("type", Refusal.UNKNOWN)
            page = await self.deliveries.list(request.key, wanted, after, PAGE)
        except (FieldRefused, FilterRefused) as error:
            refused = said(request, error)
        is_empty = page is not None and not page.deliveries and not page.next
        is_unknown = False
        if fields.merchant and is_empty:
            # It is mistyped, perhaps.
            is_unknown = await self.merchants.get(request.key, fields.merchant) is None
        filled = dict(fields.pairs)
        mass = [
            MassButton(name, act.is_destructive, hindrance(request, name, fields))
            for name, act in MASS.items()
        ]
        facts: Mapping[str, object] = {
            "filter": fields,
            "local": fields.local(request.reader.zone),
            "shows_end": fields.state == State.FAILED or (fields.time == ENDED and "time" in filled),
            "is_by_end": is_by_end,
            "mass": mass,
            "hindrances": _hindrances(request, mass),
            "is_filtered": bool(filled),
            "event_types": types,
            "page": page,
            "refused": refused,
            "is_unknown": is_unknown,
            "is_later_page": after is not None,
            "first_page": with_query("/deliveries", filled),
            "next_page": with_query("/deliveries", {**filled, "after": page.next if page else None}),
        }
        return Page("deliveries.html", facts, 422 if refused else 200)


def _hindrances(request: Request, buttons: Sequence[MassButton]) -> Mapping[str, str]:
    """Say each reason once, with the names of what it keeps from being done."""
    named: dict[str, list[str]] = {}
    for button in buttons:
        if button.why_not:
            named.setdefault(button.why_not, []).append(
                texts.say(f"act.{button.name}", request.reader.language)
            )
    return {why: ", ".join(names) for why, names in named.items()}
