"""What the daemons say themselves of their attempts: their logs outlive what a failover has lost."""

import json
import re
from collections.abc import Set
from pathlib import Path

_ENDED = re.compile(rb'"event": ?"(?:delivery\.attempted|attempt\.uncounted)"')
_EVENT_ID = re.compile(rb'"event_id": ?"([^"]+)"')


def unheard(folder: Path, event_ids: Set[str]) -> frozenset[tuple[str, str]]:
    """Return daemon and event, of these events, where it had attempts and none that it saw delivered.

    folder: with the log of each daemon, NAME.log. An event of which a log says nothing is not among them.
    """
    heard: dict[tuple[str, str], bool] = {}
    for file in folder.glob("d*.log"):
        with file.open("rb") as log:
            for line in log:
                found = _EVENT_ID.search(line) if _ENDED.search(line) else None
                if found is not None and (event_id := found[1].decode()) in event_ids:
                    entry = json.loads(line)
                    is_delivered = entry["event"] == "delivery.attempted" and entry["outcome"] == "delivered"
                    heard[file.stem, event_id] = heard.get((file.stem, event_id), False) or is_delivered
    return frozenset(attempted for attempted, is_delivered in heard.items() if not is_delivered)
