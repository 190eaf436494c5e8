"""The OpenAPI document and its page, as operations that ask for no credentials and count against no limit.

Both are made when somebody first asks, since most processes are never asked, and are the same for everybody
until events are sent by other names: a client that has what there is is told so (304), and one that takes
gzip gets that. They are not in the envelope.
"""

import asyncio
import base64
import gzip
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

import orjson

from webhook_dispatcher.api.calls import NO_HEADERS, Head, Operation, PublicOperation, Response
from webhook_dispatcher.api.openapi.document import document
from webhook_dispatcher.api.openapi.document_page import STYLE, page
from webhook_dispatcher.api.validation import Nothing
from webhook_dispatcher.domain.names import Names

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page fetches nothing and runs nothing: its style is the one that we know."""
FOR_A_WHILE = {"Cache-Control": "public, max-age=300", "Vary": "Accept-Encoding"}
PAGE_HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
_TAG = re.compile(r'"[^"]*"|\*')
_NOT_AT_ALL = re.compile(r"[qQ]=0(?:\.0*)?")


def published(
    operations: Sequence[Operation], names: Callable[[], Names] = Names
) -> tuple[PublicOperation[Nothing], ...]:
    """Return what shows these operations, and by which names events are sent now, to whoever asks."""
    as_json = Text(lambda by: orjson.dumps(document(operations, by)), names, "application/json")
    kind = "text/html; charset=utf-8"
    as_page = Text(lambda by: page(document(operations, by)).encode(), names, kind, PAGE_HEADERS)
    return (
        PublicOperation("GET", "/openapi.json", "readDocument", Nothing, as_json.get),
        PublicOperation("GET", "/docs", "showDocument", Nothing, as_page.get),
    )


class Text:
    """A text that does not change while events are sent by the same names. kind: its content type."""

    def __init__(
        self,
        make: Callable[[Names], bytes],
        names: Callable[[], Names],
        kind: str,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        self._make, self._names, self._kind, self._headers = make, names, kind, headers
        self._made: _Made | None = None

    async def get(self, head: Head, _: Nothing) -> Response:
        """Return it as the client takes it, or say that it has not changed."""
        names = self._names()
        if (made := self._made) is None or made.names != names:
            # In a thread: other requests do not wait for it. Whoever asks meanwhile makes the same once more.
            made = self._made = await asyncio.to_thread(lambda: _Made(self._make(names), names))
        # Weak (RFC 9110 8.8.1): it is the same for both encodings.
        headers = {**FOR_A_WHILE, **self._headers, "ETag": f"W/{made.tag}"}
        known = _TAG.findall(head.headers.get("If-None-Match", ""))
        if made.tag in known or known == ["*"]:
            return Response(b"", 304, headers, language="en", page=self._kind)
        if _takes_gzip(head.headers.get("Accept-Encoding", "")):
            headers["Content-Encoding"] = "gzip"
            return Response(made.compressed, headers=headers, language="en", page=self._kind)
        return Response(made.text, headers=headers, language="en", page=self._kind)


class _Made:
    def __init__(self, text: bytes, names: Names) -> None:
        self.text, self.names = text, names
        self.compressed = gzip.compress(text, mtime=0)
        self.tag = f'"{hashlib.sha256(text).hexdigest()[:32]}"'


def _takes_gzip(accepted: str) -> bool:
    """Tell whether a client names gzip among the encodings that it takes (RFC 9110 12.5.3)."""
    for coding, _, weight in (each.partition(";") for each in accepted.split(",")):
        if coding.strip().lower() == "gzip":
            return _NOT_AT_ALL.fullmatch(weight.strip()) is None
    return False
