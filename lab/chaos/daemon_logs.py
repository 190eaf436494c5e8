"""What daemons say themselves of their attempts: their logs outlive what a kill or a failover has lost."""

import json
import re
from collections.abc import Iterator, Mapping, Set
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.chaos.labels import label

_ENDED = re.compile(rb'"event": ?"(?:delivery\.attempted|attempt\.uncounted)"')
_UNANSWERED = re.compile(rb'"status": ?null')
_EVENT_ID = re.compile(rb'"event_id": ?"([^"]+)"')


def unheard(folder: Path, event_ids: Set[str]) -> frozenset[tuple[str, str]]:
    """Return daemon and event, of these events, where it had attempts and none that it saw delivered.

    folder: with the log of each daemon, NAME.log. An event of which a log says nothing is not among them.
    """
    heard: dict[tuple[str, str], bool] = {}
    for daemon, line in _ended(folder):
        found = _EVENT_ID.search(line)
        if found is not None and (event_id := found[1].decode()) in event_ids:
            entry = json.loads(line)
            is_delivered = entry["event"] == "delivery.attempted" and entry["outcome"] == "delivered"
            heard[daemon, event_id] = heard.get((daemon, event_id), False) or is_delivered
    return frozenset(attempted for attempted, is_delivered in heard.items() if not is_delivered)


def given_up(folder: Path, delivery_ids: Mapping[str, str]) -> Mapping[str, float]:
    """Return, by event, when (Unix time) an attempt that counts had first ended without an answer.

    delivery_ids: what ids of deliveries stand for (routes.py).
    """
    ends: dict[str, float] = {}
    for _, line in _ended(folder):
        if _UNANSWERED.search(line):
            entry: dict[str, Any] = json.loads(line)
            if entry["event"] == "delivery.attempted":
                at = datetime.fromisoformat(entry["at"]).timestamp()
                event_id = delivery_ids.get(entry["event_id"]) or label(
                    entry["event_id"], entry.get("endpoint")
                )
                ends[event_id] = min(at, ends.get(event_id, at))
    return ends


def _ended(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the daemon and the line of each attempt that has ended."""
    for file in folder.glob("d*.log"):
        with file.open("rb") as log:
            yield from ((file.stem, line) for line in log if _ENDED.search(line))
