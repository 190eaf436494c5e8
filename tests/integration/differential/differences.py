"""Where our senders read an answer otherwise than `http.client` and h11 do, and why that is right.

An answer of `answers.py` that is not here means the same to all. Two rules are behind most rows. In doubt
there was no answer: the event is sent again, and receivers drop what they have seen. In doubt the connection
is closed: that costs a handshake, where keeping it could cost an event.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.integration.differential.clients import Reading

FRAMING = "two framings at once are how answers are smuggled; an error, says RFC 9112, 6.3"
LENGTH = "not a number as RFC 9110, 8.6, writes it: where the answer ends is anybody's guess"
LATER = "what it declares may still come, and would be read as the next answer (seen)"
CODING = "who does not know the coding reads to the connection's end (RFC 9112, 6.3); the status is known"
LAX_HTTP_CLIENT = "http.client reads headers as those of a mail: whatever has a line end"
STRICT_H11 = "h11 keeps to the grammar; honest receivers do not all, and the status is known"
CUT_HEAD = "http.client takes the connection's end for that of the head: half an answer is none"
INVISIBLE = "http.client splits the line at any white space"
UPGRADE = "we asked for no other protocol; whatever follows is not HTTP"


@dataclass(frozen=True)
class Row:
    """One answer's readings, as `str(Reading)` shows them. aiohttp: where its older llhttp differs."""

    ours: str
    http_client: str
    h11: str
    why: str
    aiohttp: str | None = None


NONE, OK, KEPT = "no answer", "200", "200, kept"

# fmt: off
DIFFERENCES = {
    "a length of 4,300 zeros and a 2": Row(OK, OK, NONE, STRICT_H11),
    "the same length twice": Row(NONE, KEPT, KEPT, "RFC 9112, 6.3, leaves the choice; llhttp refuses it"),
    "two lengths": Row(NONE, KEPT, NONE, FRAMING),
    "a list of lengths": Row(NONE, OK, KEPT, LENGTH),
    "a list of two lengths": Row(NONE, OK, NONE, LENGTH),
    "a length with a plus": Row(NONE, KEPT, NONE, LENGTH),
    "a length with a minus": Row(NONE, OK, NONE, LENGTH),
    "a length with an underscore": Row(NONE, KEPT, NONE, LENGTH),
    "a length in hexadecimal": Row(NONE, OK, NONE, LENGTH),
    "a length with a space within": Row(NONE, OK, NONE, LENGTH),
    "an empty length": Row(NONE, OK, NONE, LENGTH),
    "a length beyond 2**64": Row(NONE, OK, OK, "more than a parser can count is refused (RFC 9110, 8.6)"),
    "a length in other digits": Row(NONE, OK, NONE, LENGTH),
    "chunks without their last line": Row(OK, KEPT, OK, "http.client does not wait for the last line"),
    "chunks with a length behind them": Row(OK, KEPT, KEPT, FRAMING),
    "a chunk with a space before its size": Row(OK, KEPT, OK, "int() takes more than hexadecimal digits"),
    "a chunk of 0x2": Row(OK, KEPT, OK, "int() takes more than hexadecimal digits"),
    "a chunk whose last byte is its CR": Row(KEPT, OK, OK,
        "a bare LF ends a line, behind a chunk too; were it misread, then by the same merchant's requests"),
    "chunks, then a length": Row(NONE, KEPT, KEPT, FRAMING),
    "a length, then chunks": Row(NONE, KEPT, KEPT, FRAMING),
    "chunks twice": Row(OK, KEPT, NONE, CODING),
    "chunks of gzip": Row(OK, OK, NONE, CODING),
    "gzip of chunks": Row(OK, OK, NONE, CODING),
    "an empty transfer encoding": Row(NONE, OK, NONE, "refused by newer versions of llhttp", aiohttp=OK),
    "an unknown transfer encoding": Row(OK, OK, NONE, CODING),
    "an unknown transfer encoding and a length": Row(NONE, KEPT, NONE, FRAMING),
    "a transfer encoding with a vertical tab": Row(OK, OK, NONE, CODING),
    "204 with a length": Row("204", "204, kept", "204, kept", LATER),
    "204 with chunks declared": Row("204", "204", "204, kept", LATER),
    "204 with chunks": Row("204", "204, kept", "204", LATER),
    "304 with a length": Row("304", "304, kept", "304, kept", LATER),
    "103 with a length first": Row(OK, KEPT, KEPT, LATER),
    "103 that closes first": Row(KEPT, KEPT, KEPT,
        "to aiohttp's llhttp the message has ended for good", aiohttp=NONE),
    "101": Row("101", "101, kept", NONE, UPGRADE),
    "101 without a word of upgrading": Row("101", "101, kept", NONE, UPGRADE),
    "an empty line first": Row(OK, NONE, NONE, "the status is known"),
    "200 empty lines first": Row(OK, NONE, NONE, "the status is known"),
    "a space first": Row(NONE, KEPT, NONE, INVISIBLE),
    "HTTP/1.0 kept": Row(KEPT, KEPT, OK, "h11 keeps no HTTP/1.0"),
    "HTTP/1.0 in chunks, kept": Row(OK, KEPT, OK, "its framing is faulty: close it (RFC 9112, 6.1)"),
    "HTTP/1.2": Row(NONE, KEPT, KEPT, "there is no such version, and llhttp knows those there are"),
    "HTTP/2.0": Row(OK, NONE, KEPT, "the status is known; nothing is known of how such a connection goes on"),
    "Connection twice, close last": Row(OK, KEPT, OK, "http.client looks at the first"),
    "Connection: closed": Row(KEPT, OK, KEPT, "http.client looks for `close` anywhere in it"),
    "Proxy-Connection: close": Row(OK, KEPT, KEPT, "llhttp takes it for Connection; it costs a handshake"),
    "a reason with a NUL": Row(OK, KEPT, NONE, STRICT_H11),
    "a reason with a CR": Row(NONE, KEPT, NONE, INVISIBLE),
    "two spaces before the status": Row(NONE, KEPT, NONE, INVISIBLE),
    "a tab before the status": Row(NONE, KEPT, NONE, INVISIBLE),
    "a tab behind the status": Row(NONE, KEPT, NONE, INVISIBLE),
    "status 000": Row("0", NONE, NONE, "three digits are shown as they are; not a delivery either way"),
    "status 099": Row("99", NONE, NONE, "three digits are shown as they are; not a delivery either way"),
    "bare CR": Row(NONE, OK, NONE, LAX_HTTP_CLIENT),
    "CR CR LF": Row(NONE, OK, NONE, LAX_HTTP_CLIENT),
    "a fold first": Row(OK, KEPT, NONE, STRICT_H11),
    "a NUL in a value": Row(NONE, KEPT, NONE, LAX_HTTP_CLIENT),
    "a NUL in a name": Row(NONE, OK, NONE, LAX_HTTP_CLIENT),
    "Latin-1 in a name": Row(NONE, OK, NONE, LAX_HTTP_CLIENT),
    "no colon": Row(NONE, OK, NONE, LAX_HTTP_CLIENT),
    "no name": Row(NONE, KEPT, NONE, LAX_HTTP_CLIENT),
    "a space before a colon": Row(NONE, OK, NONE, LAX_HTTP_CLIENT),
    "a space before the length's colon": Row(OK, OK, NONE, STRICT_H11),
    "a name with a slash": Row(NONE, KEPT, NONE, LAX_HTTP_CLIENT),
    "200 headers": Row(KEPT, NONE, KEPT, "http.client takes a hundred; honest receivers send more"),
    "2,000 headers": Row(NONE, NONE, KEPT, "h11 bounds their bytes, we their number too"),
    "a status line": Row(NONE, OK, NONE, CUT_HEAD),
    "half a head": Row(NONE, OK, NONE, CUT_HEAD),
    "a head but for its last line": Row(NONE, KEPT, NONE, CUT_HEAD),
}
# fmt: on

# The same for answers that nobody has written down: what mutations bring about, by what shows it.
STRICTER = {
    FRAMING: rb"(?is)content-length:.*transfer-encoding:|transfer-encoding:.*content-length:",
    "llhttp takes one length, of digits it can count": rb"(?is)content-length:(?:[^\n]*(?:,|\d{19})|"
    rb".*content-length:)",
    "there is no such version": rb"HTTP/(?!1\.[01]|2\.0)",
    "what comes behind a 1xx that closes": rb"(?is)HTTP/1.[01] 1.*connection:",
}
LAXER = {
    "three digits are shown as they are": rb"^\s*HTTP/\d\.\d 0\d\d",
    "an empty line first": rb"^[\r\n]",
    "http.client knows no such version, and h11 is strict": rb"^HTTP/2\.0",
}
EMPTY_CODING = rb"(?i)transfer-encoding:\s*\n"


def unexplained(answer: bytes, ours: Reading, http_client: Reading, h11: Reading) -> str | None:
    """Say what is wrong with our reading, if anything is.

    Where the two agree, ours has to be theirs; a connection is never kept that both would close.
    """
    statuses = {reading.status for reading in (http_client, h11)}
    if ours.is_kept and not (http_client.is_kept or h11.is_kept):
        return "kept"
    if ours.status is None:
        return "refused" if None not in statuses and not _shows(STRICTER, answer) else None
    if statuses == {None}:
        return None if _shows(LAXER, answer) else "taken"
    return None if ours.status in statuses else "misread"


def _shows(rows: Mapping[str, bytes], answer: bytes) -> bool:
    return any(re.search(pattern, answer) for pattern in rows.values())
