"""What daemons say themselves of their attempts: their logs outlive what a kill or a failover has lost."""

import json
import re
from collections.abc import Iterator, Mapping, Set
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.chaos.labels import event_of, label

_ENDED = re.compile(rb'"event": ?"(?:delivery\.attempted|attempt\.uncounted)"')
_UNANSWERED = re.compile(rb'"status": ?null')


def unheard(folder: Path, event_ids: Set[str], delivery_ids: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return daemon and label of events, of these, where it had attempts and none that it saw delivered.

    folder: with the log of each daemon, NAME.log. An event of which a log says nothing is not among them.
    delivery_ids: what ids of deliveries stand for (routes.py).
    """
    heard: dict[tuple[str, str], bool] = {}
    for daemon, line in _ended(folder):
        entry: dict[str, Any] = json.loads(line)
        name = _label(entry, delivery_ids)
        if event_of(name) in event_ids:
            is_delivered = entry["event"] == "delivery.attempted" and entry["outcome"] == "delivered"
            heard[daemon, name] = heard.get((daemon, name), False) or is_delivered
    return frozenset(attempted for attempted, is_delivered in heard.items() if not is_delivered)


def given_up(folder: Path, delivery_ids: Mapping[str, str]) -> Mapping[str, float]:
    """Return, by label, when (Unix time) an attempt that counts had first ended without an answer."""
    ends: dict[str, float] = {}
    for _, line in _ended(folder):
        if _UNANSWERED.search(line):
            entry: dict[str, Any] = json.loads(line)
            if entry["event"] == "delivery.attempted":
                at = datetime.fromisoformat(entry["at"]).timestamp()
                name = _label(entry, delivery_ids)
                ends[name] = min(at, ends.get(name, at))
    return ends


def _label(entry: Mapping[str, Any], delivery_ids: Mapping[str, str]) -> str:
    return delivery_ids.get(entry["event_id"]) or label(entry["event_id"], entry.get("endpoint"))


def _ended(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the daemon and the line of each attempt that has ended."""
    for file in folder.glob("d*.log"):
        with file.open("rb") as log:
            yield from ((file.stem, line) for line in log if _ENDED.search(line))
