"""Answers as llhttp reads them: the final status, bounds on what comes before it, and where an answer ends.

An answer's end is in doubt where its sender may have meant more bytes, or fewer, than we read: a status that
has no body and declares one, bytes behind the end. What comes later would then be read as the answer to
the next request, which may be another merchant's; no connection is kept behind such an answer.
llhttp takes bare LF and folded headers; only a NUL in a value has to be looked for.
Source: contract 2.1; RFC 9112.
"""

import codecs

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

# What clients commonly allow (8 KiB, about a hundred headers) turns honest answers into failures.
_LINE_LIMIT = 64 * 1024

# What may come until an answer is final, with all that announces it (1xx): long headers would be held in
# memory, 65,000 short ones take 20 ms, and each piece some 30 µs, be it a byte.
_HEADERS_LIMIT = 1000
_MAX_PIECES = 1000
MAX_HEAD_BYTES = 256 * 1024
_MAX_INTERIM = 64

EXCERPT_SECONDS = 0.5
"""How long, behind the headers, the body may go on coming before what there is must do."""

_SWITCHING_PROTOCOLS = 101
REQUEST_TIMEOUT = 408
_WITHOUT_BODY = frozenset((204, 304))

# More digits than any body has that is waited for: Python refuses to read thousands of them, zeros included.
_LENGTH_DIGITS = 4

_CONTENT_LENGTH = b"content-length"
_TRANSFER_ENCODING = b"transfer-encoding"
_LINE_ENDS = b"\r\n"


def answer_parser(protocol: object) -> HttpResponseParser:
    """Make a parser that calls the protocol back; as lenient as honest receivers need it."""
    parser = HttpResponseParser(protocol)
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_keep_alive=True,  # behind a 1xx that says `Connection: close`
        lenient_optional_cr_before_lf=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser


class Malformation(Exception):
    """What a callback of the parser refuses; the parser makes an HttpParserError of it."""


class AnswerParser:
    """Parse the answers of one connection, each to the request before it.

    status: the final head's, or -1 until that has come.
    is_complete: the answer's end has come.
    is_keepable: nothing so far stands against another request on the connection.
    is_overrun: more came than answers, or would come.
    lacks_excerpt: the beginning of the body is asked for and has not all come.
    """

    lacks_excerpt = False

    def __init__(self) -> None:
        self._parser: HttpResponseParser | None = None
        self.status = -1
        self.is_overrun = False

    def begin(self) -> None:
        """Expect the answer to another request."""
        if self._parser is None:
            self._parser = answer_parser(self)
        self.status = -1
        self.is_complete = False
        self.is_keepable = True
        self._head_bytes = self._pieces = self._interim = self._headers = 0

    def doubt(self) -> None:
        """Let no other request follow this answer on the connection."""
        self.is_keepable = False

    def _overrun(self) -> None:
        self.is_overrun = True
        self.doubt()

    def close(self) -> None:
        """Parse nothing more; the parser refers to us."""
        self._parser = None

    def feed(self, data: bytes) -> bool:
        """Parse a piece; False if it is not HTTP, or too much of it comes before a final head."""
        parser = self._parser
        if parser is None:
            return False
        try:
            if data[-1] in _LINE_ENDS and len(data) > 1:
                # llhttp skips line ends behind an answer: that the last one is too many shows only by itself.
                parser.feed_data(data[:-1])
                if self.is_complete:
                    self._overrun()
                parser.feed_data(data[-1:])
            else:
                parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.is_overrun |= self.is_complete and self.status != _SWITCHING_PROTOCOLS
            return False
        if self.status >= 0:
            return True
        self._head_bytes += len(data)
        self._pieces += 1
        return self._head_bytes <= MAX_HEAD_BYTES and self._pieces <= _MAX_PIECES

    def has_rest_within(self, most: int) -> bool:
        """Tell, behind the final head, whether the rest of its body may be that short; chunks always may."""
        length = self._length
        return len(length) <= _LENGTH_DIGITS and (not length or int(length) <= most)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a head; behind a complete answer there should be none."""
        if self.is_complete:
            self._overrun()
        self._reason_bytes = 0
        self._length = b""
        self._is_coded = False

    def on_status(self, reason: bytes) -> None:
        """Bound the reason phrase, which comes in pieces and is not used."""
        self._reason_bytes += len(reason)
        if self._reason_bytes > _LINE_LIMIT:
            raise Malformation

    def on_header(self, name: bytes, value: bytes) -> None:
        """Bound the headers, and note those that say where the answer ends."""
        if self.status >= 0:
            return  # a trailer, or another answer
        self._headers += 1
        if (
            self._headers > _HEADERS_LIMIT
            or len(value) > _LINE_LIMIT
            or len(name) > _LINE_LIMIT
            or b"\0" in value
        ):
            raise Malformation
        if len(name) == len(_CONTENT_LENGTH) and name.lower() == _CONTENT_LENGTH:
            self._length = value
        elif len(name) == len(_TRANSFER_ENCODING) and name.lower() == _TRANSFER_ENCODING:
            self._is_coded = True

    def on_headers_complete(self) -> None:
        """Take the final head's status; count those that announce it (1xx)."""
        if self.status >= 0 or self._parser is None:
            return
        status: int = self._parser.get_status_code()
        declares_body = self._is_coded or self._length.strip(b"0") != b""
        if 100 <= status < 200 and status != _SWITCHING_PROTOCOLS:
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                raise Malformation
            if declares_body:
                self.doubt()
            return
        self.status = status
        if declares_body and status in _WITHOUT_BODY:
            self._overrun()
        elif (
            # Also behind a body that only the connection's end ends, and a 101.
            not self._parser.should_keep_alive()
            # Source: RFC 9112, 6.1.
            or (self._is_coded and self._parser.get_http_version() != "1.1")
            # It may have crossed the request, whose own answer would follow.
            or status == REQUEST_TIMEOUT
        ):
            self.doubt()

    def on_message_complete(self) -> None:
        """Note that nothing is left to read."""
        self.is_complete = self.status >= 0


class ExcerptParser(AnswerParser):
    """Parse answers, and keep how the body of a failed one begins, for operators who ask for it.

    Nothing depends on it: the verdict has fallen with the headers, and the time that is spent here is no part
    of the attempt's. max_bytes: how much of it is kept. Source: contract 2.1 and 3 (`response_excerpt`).
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
