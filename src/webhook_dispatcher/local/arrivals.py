"""What reached a receiver, request by request, and what that says about order.

The receiver's own log is the judge of the promises: it knows nothing of the daemon.
"""

import base64
import hashlib
import hmac
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from webhook_dispatcher.domain.signing import Secret

TOLERANCE_SECONDS = 300


class Signature(StrEnum):
    """What a receiver makes of the signature header."""

    RIGHT = "right"
    WRONG = "wrong"
    MISSING = "missing"
    STALE = "stale"
    UNCHECKED = "unchecked"


REFUSALS = {Signature.MISSING: 401, Signature.WRONG: 401, Signature.STALE: 400}
"""What a receiver is advised to answer. Source: contract 1."""


@dataclass(slots=True)
class Arrival:
    """One request.

    started_at, ended_at: the receiver's monotonic clock, the first byte received and the answer sent (or
        the connection lost); ended_at is None while it lasts.
    attempt: 1 for the first arrival of this event id at this merchant, and so on.
    status: what was answered; None if nothing was.
    was_cut: the receiver cut the connection instead of answering.
    answer: what came of forwarding it, in words, where it was forwarded.
    """

    merchant_id: str
    event_id: str
    type: str
    attempt: int
    started_at: float
    connection: int
    signature: Signature
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    ended_at: float | None = None
    status: int | None = None
    was_cut: bool = False
    answer: str | None = None


def verify(header: str | None, body: bytes, secrets: Iterable[Secret], unix: float) -> Signature:
    """Check a signature as a merchant does; on purpose not by the code that signs.

    Source: contract 1.
    """
    if header is None:
        return Signature.MISSING
    parts = [part.strip().partition("=")[::2] for part in header.split(",")]
    stamps = [value for name, value in parts if name == "t"]
    given = [value.encode(errors="replace") for name, value in parts if name == "v1"]
    if len(stamps) != 1 or not re.fullmatch("[0-9]{1,12}", stamps[0]):
        return Signature.WRONG
    signed = stamps[0].encode() + b"." + body
    expected = [hmac.new(secret.revealed, signed, hashlib.sha256).hexdigest().encode() for secret in secrets]
    if not any(hmac.compare_digest(mine, theirs) for mine in expected for theirs in given):
        return Signature.WRONG
    return Signature.RIGHT if abs(unix - int(stamps[0])) <= TOLERANCE_SECONDS else Signature.STALE


def verify_standard(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[Secret], unix: float
) -> Signature:
    """Check the signature of Standard Webhooks as its libraries do; on purpose not by the code that signs."""
    event_id, stamp, given = (headers.get(f"webhook-{part}", "") for part in ("id", "timestamp", "signature"))
    if not re.fullmatch("[0-9]{1,12}", stamp):
        return Signature.WRONG if stamp or given else Signature.MISSING
    expected = []
    for secret in secrets:
        with suppress(ValueError):
            key = base64.b64decode(secret.revealed.decode().removeprefix("whsec_"))
            mine = hmac.new(key, f"{event_id}.{stamp}.".encode() + body, hashlib.sha256).digest()
            expected.append(f"v1,{base64.b64encode(mine).decode()}")
    if not set(expected) & set(given.split(" ")):
        return Signature.WRONG
    return Signature.RIGHT if abs(unix - int(stamp)) <= TOLERANCE_SECONDS else Signature.STALE


def first_arrivals(arrivals: Iterable[Arrival]) -> dict[str, list[Arrival]]:
    """Return, for each merchant, the first arrival of each event as they came."""
    firsts: defaultdict[str, list[Arrival]] = defaultdict(list)
    counted: set[tuple[str, str]] = set()
    for arrival in sorted(arrivals, key=lambda arrival: arrival.started_at):
        if (arrival.merchant_id, arrival.event_id) not in counted:
            counted.add((arrival.merchant_id, arrival.event_id))
            firsts[arrival.merchant_id].append(arrival)
    return dict(firsts)


def out_of_order(arrivals: Iterable[Arrival], seq_of: Mapping[str, int]) -> list[tuple[Arrival, Arrival]]:
    """Return the pairs of neighbouring first arrivals that came against the order of `seq`."""
    return [
        (before, after)
        for before, after in _neighbours(arrivals)
        if seq_of[before.event_id] > seq_of[after.event_id]
    ]


def overlapping(arrivals: Iterable[Arrival], tolerance: float = 0.1) -> list[tuple[Arrival, Arrival]]:
    """Return the pairs of first arrivals of one merchant of which the second began before the first ended.

    tolerance: seconds for an arrival that got no answer: the sender gave it up on its own clock, and the
        end of that connection reaches us after that, perhaps behind the next request.
    """
    return [
        (before, after)
        for before, after in _neighbours(arrivals)
        if before.ended_at is None
        or after.started_at < before.ended_at - (0 if before.status is not None else tolerance)
    ]


def _neighbours(arrivals: Iterable[Arrival]) -> Iterator[tuple[Arrival, Arrival]]:
    for firsts in first_arrivals(arrivals).values():
        yield from itertools.pairwise(firsts)


def to_line(arrival: Arrival) -> str:
    """Write an arrival as one line of JSON."""
    return json.dumps(
        {
            "merchant_id": arrival.merchant_id,
            "event_id": arrival.event_id,
            "type": arrival.type,
            "attempt": arrival.attempt,
            "started_at": arrival.started_at,
            "ended_at": arrival.ended_at,
            "status": arrival.status,
            "was_cut": arrival.was_cut,
            "connection": arrival.connection,
            "signature": arrival.signature,
            "headers": dict(arrival.headers),
            "body": base64.b64encode(arrival.body).decode(),
            **({} if arrival.answer is None else {"answer": arrival.answer}),
        }
    )


def read_log(file: Path) -> list[Arrival]:
    """Read arrivals back; a last line cut short by a kill is left out."""
    return [_from_line(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _from_line(line: str) -> Arrival:
    values: dict[str, Any] = json.loads(line)
    values["signature"] = Signature(values["signature"])
    values["body"] = base64.b64decode(values["body"])
    return Arrival(**values)
