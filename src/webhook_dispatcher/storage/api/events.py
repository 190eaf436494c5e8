"""What a merchant reads of its events, in an order that never skips what commits late: api_events.sql, bound.

The order is that of (xid, seq): the transaction that inserted an event, and its number. A page holds events
below the snapshot's horizon alone: all transactions below it have ended, so nothing can be inserted there any
more. A bookmark holds on the server and timeline where it was given, until something behind it is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.storage.api.database import Database, ask, ask_own
from webhook_dispatcher.storage.statements import load

MAX_LIMIT = 100
MAX_PAGE_BYTES = 1_048_576
"""Bytes of objects after which a page ends."""
_STATEMENTS = load("api_events")


class FeedNotIndexed(DispatcherError):
    """Events cannot be read in order here. Reaction: there is no such operation."""

    def __init__(self) -> None:
        super().__init__("events are not indexed for it: run `webhook-dispatcher migrate --feed-index`")


class ServerChanged(DispatcherError):
    """The rows may be of another server's transactions. Reaction: say so; an operator adopts them."""

    def __init__(self) -> None:
        super().__init__(
            "the database is on another server than it was: `webhook-dispatcher adopt` orders its events"
        )


class BookmarkRefused(DispatcherError):
    """Reading cannot go on from here. Reaction: say why; to begin again, with `since`, skips nothing."""


class BookmarkElsewhere(BookmarkRefused):
    """It was given on another server, or on a timeline that this one has left."""

    def __init__(self) -> None:
        super().__init__("the bookmark was given on another server or timeline")


class BookmarkExpired(BookmarkRefused):
    """Some of what is behind it may have been dropped."""

    def __init__(self) -> None:
        super().__init__("what is behind the bookmark is not kept any more")


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Up to where a feed was read, and on which server and timeline that holds.

    server, timeline: where it was given; None where the server does not say. kept_xid: all that had been
    dropped by then is of earlier transactions.
    """

    xid: int
    seq: int
    server: int | None
    timeline: str | None
    kept_xid: int

    def verify(self, now: "Bookmark") -> None:
        """Raise BookmarkRefused unless one can go on from here; now: a bookmark of now."""
        if (self.server, self.timeline) != (now.server, now.timeline):
            raise BookmarkElsewhere
        if self.kept_xid != now.kept_xid and self.xid < now.kept_xid:
            raise BookmarkExpired


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Some events in order, and from where to go on. delayed_since: when the first that waits was made."""

    events: Sequence[Event]
    following: Bookmark
    delayed_since: datetime | None


class Events:
    """Reads on a pool, as `storage.api.deliveries` does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self, token_hash: bytes, bookmark: Bookmark | None, since: datetime | None, limit: int
    ) -> FeedPage:
        """Return at most `limit` (1 to 100) events behind a bookmark; else of transactions from `since` on.

        Errors: FeedNotIndexed, ServerChanged, BookmarkRefused.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit: must be 1 to {MAX_LIMIT}, not {limit}")
        xid, seq = (None, None) if bookmark is None else (bookmark.xid, bookmark.seq)
        rows = await ask_own(
            self._database,
            _STATEMENTS["list_own_events"],
            token_hash,
            xid,
            seq,
            since,
            limit + 1,
            MAX_PAGE_BYTES,
        )
        horizon = _horizon(rows[0])
        if bookmark is not None:
            bookmark.verify(horizon)
        return _page([row for row in rows if row["xid"] is not None], limit, bookmark, horizon)

    async def is_indexed(self) -> bool:
        """Tell whether events can be read in order here."""
        [row] = await ask(self._database, _STATEMENTS["is_feed_indexed"])
        is_indexed: bool = row["has_feed_index"]
        return is_indexed


def _horizon(known: Any) -> Bookmark:
    """Return the bookmark behind all that is complete."""
    if not known["has_feed_index"]:
        raise FeedNotIndexed
    if known["has_moved"]:
        raise ServerChanged
    return Bookmark(known["horizon"], 0, known["server"], known["timeline"], known["kept_xid"] or 0)


def _page(found: Sequence[Any], limit: int, bookmark: Bookmark | None, horizon: Bookmark) -> FeedPage:
    complete = [row for row in found if row["is_complete"]]
    delayed = next((row["created_at"] for row in found if not row["is_complete"]), None)
    events = [_event(row) for row in complete[:limit]]
    is_over = len(complete) <= limit and (not found or found[0]["looked"] == len(found))
    if not is_over:
        return FeedPage(events, _behind(complete[: len(events)][-1], horizon), None)
    # All below the horizon was given. The bookmark moves up to it: further behind, it would expire sooner.
    xid, seq = (0, 0) if bookmark is None else (bookmark.xid, bookmark.seq)
    following = horizon if (horizon.xid, horizon.seq) > (xid, seq) else bookmark
    assert following is not None
    return FeedPage(events, following, delayed)


def _behind(row: Any, horizon: Bookmark) -> Bookmark:
    return Bookmark(row["xid"], row["seq"], horizon.server, horizon.timeline, horizon.kept_xid)


def _event(row: Any) -> Event:
    text: str = row["object"]
    return Event(row["seq"], row["event_id"], "", row["type"], row["created_at"], text.encode())
