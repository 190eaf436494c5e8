"""How the body of a failed attempt's answer begins, for operators who want to see what was said.

Nothing depends on it: the verdict has fallen with the headers, and the time that is spent here is no part of
the attempt's. It is read only where a setting asks for it.
Source: contract 2.1 and 3 (`response_excerpt`).
"""

import codecs

from webhook_dispatcher.transport.parsing import AnswerParser

EXCERPT_SECONDS = 0.5
"""How long, behind the headers, the body may go on coming before what there is must do."""


class ExcerptParser(AnswerParser):
    """Parse answers, and keep how the body of a failed one begins.

    max_bytes: how much of it.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    def begin(self) -> None:
        """Expect the answer to another request."""
        super().begin()
        self.body = b""
        self.lacks_excerpt = False

    def on_headers_complete(self) -> None:
        """Begin behind the final head."""
        had_head = self.status >= 0
        super().on_headers_complete()
        self.lacks_excerpt |= not had_head and self.status >= 0 and not 200 <= self.status <= 299

    def on_body(self, body: bytes) -> None:
        """Keep what is still wanted of a piece."""
        if self.lacks_excerpt:
            self.body += body[: self._max_bytes - len(self.body)]
            self.lacks_excerpt = len(self.body) < self._max_bytes

    def on_message_complete(self) -> None:
        """Note that nothing is left to read."""
        super().on_message_complete()
        self.lacks_excerpt = False

    def excerpt(self) -> str | None:
        """Return what there is, once."""
        body, self.body = self.body, b""
        return as_text(body, self._max_bytes)


def as_text(body: bytes, max_bytes: int) -> str | None:
    """Read as UTF-8 what a receiver wrote, whatever it is; of no more bytes, even as text. None: nothing.

    A character that is cut in two is left out; Postgres has no text with a NUL.
    """
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(body[:max_bytes]).replace("\0", "\ufffd")
    return text.encode()[:max_bytes].decode("utf-8", "ignore") or None
