"""The OpenAPI document and its page, as operations that ask for no credentials and count against no limit.

Both are made once, at the start, and are the same for everybody. They are not in the envelope.
"""

import base64
import hashlib
from collections.abc import Sequence

import orjson

from webhook_dispatcher.api.calls import Answer, Asked, Operation
from webhook_dispatcher.api.openapi.document import document
from webhook_dispatcher.api.openapi.document_page import STYLE, page

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page fetches nothing and runs nothing: its style is the one that we know."""
FOR_A_WHILE = {"Cache-Control": "public, max-age=300"}


def published(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return what shows these operations to whoever asks."""
    described = document(operations)
    texts = Published(orjson.dumps(described), page(described).encode())
    return (
        Operation("GET", "/openapi.json", "readDocument", texts.read, limit="none"),
        Operation("GET", "/docs", "showDocument", texts.show, limit="none"),
    )


class Published:
    """The document and its page, as bytes."""

    def __init__(self, document: bytes, page: bytes) -> None:
        self._document = document
        self._page = page

    async def read(self, _asked: Asked) -> Answer:
        """Give the document."""
        return Answer(self._document, headers=FOR_A_WHILE, language="en", page="application/json")

    async def show(self, _asked: Asked) -> Answer:
        """Give the page."""
        headers = {**FOR_A_WHILE, "Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        return Answer(self._page, headers=headers, language="en", page="text/html; charset=utf-8")
