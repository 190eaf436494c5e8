"""Cursors of lists: encrypted under a key that one database's processes share, so that nobody else makes one.

A cursor holds the operation, the filters (their hash), the merchant and the position (whatever JSON can say),
and is good for these alone. What is promised of a list's pages: no row that was there at page one is skipped
or repeated.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

MAX_LENGTH = 1_200
"""Characters: what is longer is no cursor of ours, and is not decrypted."""


class CursorRefused(Exception):
    """A cursor that is not of this list, or none of ours at all. It says which, in words for the client."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a cursor is good for. filters: as they were given, None for those that were not."""

    operation: str
    merchant_id: str
    filters: Mapping[str, str | None]

    @property
    def filters_hash(self) -> str:
        """The hash of the filters, the same in whatever order they were given."""
        filters = {name: value for name, value in self.filters.items() if value is not None}
        return hashlib.sha256(json.dumps(filters, sort_keys=True).encode()).hexdigest()


class Cursors:
    """Makes and reads cursors. key: the 32 bytes of webhook.cursor_key."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(base64.urlsafe_b64encode(key))

    def make(self, listing: Listing, position: object) -> str:
        """Return the cursor that goes on from a position."""
        content = [listing.operation, listing.merchant_id, listing.filters_hash, position]
        return self._fernet.encrypt(json.dumps(content, ensure_ascii=False).encode()).decode()

    def position(self, listing: Listing, cursor: str) -> Any:
        """Return from where a cursor goes on.

        Errors: CursorRefused unless a process of this database made it for the same list.
        """
        operation, merchant_id, filters_hash, position = self._open(cursor)
        if (operation, merchant_id) != (listing.operation, listing.merchant_id):
            raise CursorRefused("the cursor is of another list: begin again without it")
        if filters_hash != listing.filters_hash:
            raise CursorRefused(
                "the cursor was made with other filters: give those, or begin again without it"
            )
        return position

    def _open(self, cursor: str) -> tuple[str, str, str, Any]:
        try:
            if len(cursor) > MAX_LENGTH:
                raise InvalidToken
            operation, merchant_id, filters_hash, position = json.loads(self._fernet.decrypt(cursor.encode()))
        except (InvalidToken, UnicodeEncodeError):
            raise CursorRefused("the cursor is damaged, or not from here: begin again without it") from None
        return operation, merchant_id, filters_hash, position
