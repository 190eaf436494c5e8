"""`GET /v1/events`: a merchant's events from a cursor on, in an order that skips none."""

from typing import Any
from uuid import UUID

import structlog
from pydantic import Field

from webhook_dispatcher.api import validation
from webhook_dispatcher.api.calls import ApiError, Request, Response
from webhook_dispatcher.api.catalogue import NO_SUCH_PATH, UNAVAILABLE
from webhook_dispatcher.api.operations.cursors import MAX_LENGTH, CursorRefused, Listing
from webhook_dispatcher.api.operations.deliveries import OwnCursors
from webhook_dispatcher.api.operations.models import EXAMPLE_SINCE, Instant, Moment
from webhook_dispatcher.api.validation import Model
from webhook_dispatcher.domain.event import render_instant
from webhook_dispatcher.storage.api.events import (
    MAX_LIMIT,
    Bookmark,
    BookmarkElsewhere,
    BookmarkExpired,
    Events,
    FeedNotIndexed,
    FeedPage,
    ServerChanged,
)

LISTING = "events"
DELAYED = "delayedSince"

_log = structlog.get_logger()


class EventsQuery(Model):
    """From where on: behind a cursor, or from an instant; else from the first event that is kept."""

    limit: int = Field(20, ge=1, le=MAX_LIMIT)
    cursor: str | None = Field(None, min_length=1, max_length=MAX_LENGTH)
    since: Moment | None = Field(None, examples=[EXAMPLE_SINCE])


class EventData(Model):
    """What the event is about: byte for byte as it is sent; null where it was lost."""

    object: dict[str, Any] | None


class EventAnswer(Model):
    """One event: the body that is sent."""

    id: UUID
    type: str
    created_at: Instant
    data: EventData


class Feed:
    """Gives events, page by page."""

    def __init__(self, cursors: OwnCursors) -> None:
        self._cursors = cursors

    async def list(self, request: Request, query: EventsQuery) -> Response:
        """Give the next events; there is always a cursor to go on with, also behind the last of them."""
        language = request.head.language
        if query.cursor is not None and query.since is not None:
            raise validation.refuse_field("since", "cursor_and_since", language)
        cursors = await self._cursors.of(request.caller)
        listing = Listing(LISTING, request.caller.bearer.merchant_id, {})
        bookmark = None
        if query.cursor is not None:
            try:
                bookmark = Bookmark(*cursors.position(listing, query.cursor))
            except CursorRefused:
                raise validation.refuse_field("cursor", "cursor", language) from None
        page = await _read(request, bookmark, query)
        following = page.following
        position = [following.xid, following.seq, following.server, following.timeline, following.kept_xid]
        delayed = {} if page.delayed_since is None else {DELAYED: render_instant(page.delayed_since)}
        data = b"[%b]" % b",".join(event.body() for event in page.events)
        return Response(data, next_cursor=cursors.make(listing, position), meta=delayed)


async def _read(request: Request, bookmark: Bookmark | None, query: EventsQuery) -> FeedPage:
    caller, language = request.caller, request.head.language
    try:
        return await Events(caller.database).list(caller.token, bookmark, query.since, query.limit)
    except BookmarkElsewhere:
        raise validation.refuse_field("cursor", "cursor_elsewhere", language) from None
    except BookmarkExpired:
        raise validation.refuse_field("cursor", "cursor_expired", language) from None
    except FeedNotIndexed:
        raise ApiError(NO_SUCH_PATH) from None
    except ServerChanged as error:
        _log.error("events.unordered", error=str(error), once_in=60.0)
        raise ApiError(UNAVAILABLE) from None
