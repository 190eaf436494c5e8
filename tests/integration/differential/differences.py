"""Where our senders read an answer otherwise than h11 does, and why that is right.

An answer of `answers.py` that is not here means the same to both. Two rules are behind most rows. In doubt
there was no answer: the event is sent again, and receivers drop what they have seen. In doubt the connection
is closed: that costs a handshake, where keeping it could cost an event.
"""

import re
from dataclasses import dataclass

from tests.integration.differential.clients import Reading

FRAMING = "two framings at once are how answers are smuggled; an error, says RFC 9112, 6.3"
LENGTH = "not a number as RFC 9110, 8.6, writes it: where the answer ends is anybody's guess"
LATER = "what it declares may still come, and would be read as the next answer (seen)"
CODING = "who does not know the coding reads to the connection's end (RFC 9112, 6.3); the status is known"
STRICT_H11 = "h11 keeps to the grammar; honest receivers do not all, and the status is known"
UPGRADE = "we asked for no other protocol; whatever follows is not HTTP"


@dataclass(frozen=True)
class Row:
    """One answer's readings, as `str(Reading)` shows them. aiohttp: where its older llhttp differs."""

    ours: str
    h11: str
    why: str
    aiohttp: str | None = None


NONE, OK, KEPT = "no answer", "200", "200, kept"

# fmt: off
DIFFERENCES = {
    "a length of 4,300 zeros and a 2": Row(OK, NONE, STRICT_H11),
    "the same length twice": Row(NONE, KEPT, "RFC 9112, 6.3, leaves the choice; llhttp refuses it"),
    "a list of lengths": Row(NONE, KEPT, LENGTH),
    "a length beyond 2**64": Row(NONE, OK, "more than a parser can count is refused (RFC 9110, 8.6)"),
    "chunks with a length behind them": Row(OK, KEPT, FRAMING),
    "a chunk whose last byte is its CR": Row(KEPT, OK,
        "a bare LF ends a line, behind a chunk too; were it misread, then by the same merchant's requests"),
    "chunks, then a length": Row(NONE, KEPT, FRAMING),
    "a length, then chunks": Row(NONE, KEPT, FRAMING),
    "chunks twice": Row(OK, NONE, CODING),
    "chunks of gzip": Row(OK, NONE, CODING),
    "gzip of chunks": Row(OK, NONE, CODING),
    "an empty transfer encoding": Row(NONE, NONE, "refused by newer versions of llhttp", aiohttp=OK),
    "an unknown transfer encoding": Row(OK, NONE, CODING),
    "a transfer encoding with a vertical tab": Row(OK, NONE, CODING),
    "204 with a length": Row("204", "204, kept", LATER),
    "204 with chunks declared": Row("204", "204, kept", LATER),
    "304 with a length": Row("304", "304, kept", LATER),
    "103 with a length first": Row(OK, KEPT, LATER),
    "103 that closes first": Row(KEPT, KEPT,
        "to aiohttp's llhttp the message has ended for good", aiohttp=NONE),
    "101": Row("101", NONE, UPGRADE),
    "101 without a word of upgrading": Row("101", NONE, UPGRADE),
    "an empty line first": Row(OK, NONE, "the status is known"),
    "200 empty lines first": Row(OK, NONE, "the status is known"),
    "HTTP/1.0 kept": Row(KEPT, OK, "h11 keeps no HTTP/1.0"),
    "HTTP/1.2": Row(NONE, KEPT, "there is no such version, and llhttp knows those there are"),
    "HTTP/2.0": Row(OK, KEPT, "the status is known; nothing is known of how such a connection goes on"),
    "Proxy-Connection: close": Row(OK, KEPT, "llhttp takes it for Connection; it costs a handshake"),
    "a reason with a NUL": Row(OK, NONE, STRICT_H11),
    "status 000": Row("0", NONE, "three digits are shown as they are; not a delivery either way"),
    "status 099": Row("99", NONE, "three digits are shown as they are; not a delivery either way"),
    "a fold first": Row(OK, NONE, STRICT_H11),
    "a space before the length's colon": Row(OK, NONE, STRICT_H11),
    "2,000 headers": Row(NONE, KEPT, "h11 bounds their bytes, we their number too"),
}
# fmt: on

# The same for answers that nobody has written down: what mutations bring about, by what shows it.
STRICTER = {
    FRAMING: rb"(?is)content-length:.*transfer-encoding:|transfer-encoding:.*content-length:",
    "llhttp takes one length, of digits it can count": rb"(?is)content-length:(?:[^\n]*(?:,|\d{19})|"
    rb".*content-length:)",
    "there is no such version": rb"HTTP/(?!1\.[01]|2\.0)",
    "a line is bounded, and so are headers": rb"[^\n]{65536}|(?:[^\n]+\n){1000}",
    "what comes behind a 1xx that closes": rb"(?is)HTTP/1.[01] 1.*connection:",
}


def unexplained(answer: bytes, ours: Reading, h11: Reading) -> str | None:
    """Say what is wrong with our reading, if anything is.

    What h11 takes for an answer, we read alike, or we refuse it for a reason; of what h11 is too strict for,
    the status is the one that stands there.
    """
    if ours.status is None:
        return "refused" if h11.status is not None and not _is_stricter(answer) else None
    if h11.status is None:
        return None if re.search(rb"HTTP/\d\.\d %03d" % ours.status, answer) else "taken"
    if ours.is_kept and not h11.is_kept:
        return "kept"
    return None if ours.status == h11.status else "misread"


def _is_stricter(answer: bytes) -> bool:
    return any(re.search(pattern, answer) for pattern in STRICTER.values())
