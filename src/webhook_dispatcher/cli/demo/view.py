"""What the demo shows while it runs: a live table on a terminal, plain lines otherwise."""

import asyncio
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from webhook_dispatcher.cli.demo import cast
from webhook_dispatcher.cli.demo.stage import Stage
from webhook_dispatcher.domain.event import TEST_EVENT_TYPE, State
from webhook_dispatcher.local.arrivals import Arrival, Signature

LIVE_INTERVAL = 0.25
PLAIN_INTERVAL = 2.0
COLUMNS = ("sent", "in order", "delivered", "retrying", "failed", "waiting")


@dataclass
class Tally:
    """What one merchant's receiver has seen."""

    sent: int = 0
    last_seq: int = 0
    is_in_order: bool = True
    wrong_signatures: int = 0


class View:
    """Counts what arrives and shows it.

    keep: whether arrivals are needed afterwards; otherwise they are forgotten once counted.
    """

    def __init__(self, stage: Stage, console: Console, *, keep: bool) -> None:
        self._stage = stage
        self._console = console
        self._keep = keep
        self._taken = 0
        self._uncounted: deque[Arrival] = deque()
        self._sent: set[str] = set()
        self._tallies = {merchant.id: Tally() for merchant in cast.MERCHANTS}
        self._counts: Mapping[str, Counter[str]] = {}
        self._last_line = ""

    def say(self, text: str) -> None:
        """Print a line, above the table if there is one."""
        self._console.print(Text(text))

    async def run(self) -> None:
        """Show how it stands, again and again until cancelled."""
        if not self._console.is_terminal:
            while True:
                await self.refresh()
                self._print_line()
                await asyncio.sleep(PLAIN_INTERVAL)
        with Live(console=self._console, auto_refresh=False, transient=self._keep) as live:
            while True:
                await self.refresh()
                live.update(self.table(), refresh=True)
                await asyncio.sleep(LIVE_INTERVAL)

    async def refresh(self) -> None:
        """Count what is new."""
        arrivals = self._stage.receiver.arrivals
        self._uncounted.extend(arrivals[self._taken :])
        self._taken = len(arrivals)
        if not self._keep:
            arrivals.clear()
            self._taken = 0
        while self._uncounted and self._count(self._uncounted[0]):
            self._uncounted.popleft()
        self._counts = await self._stage.count_by_state()

    def table(self) -> Table:
        """Draw how it stands."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("merchant", style="bold")
        table.add_column("its receiver")
        for column in COLUMNS:
            table.add_column(column, justify="right")
        for merchant in cast.MERCHANTS:
            table.add_row(merchant.id, merchant.character, *self._row(merchant.id))
        return table

    def summarise(self, deliveries: int, arrivals: int, problems: Sequence[str], seconds: float) -> None:
        """Print the last state of the table, and what the comparison says."""
        self._console.print(self.table())
        wrong = sum(tally.wrong_signatures for tally in self._tallies.values())
        verdict = "everything agrees" if not problems else f"{len(problems)} things are wrong"
        self.say(
            f"{deliveries} events, {arrivals} requests, {arrivals - wrong} of them signed right, "
            f"{seconds:.0f} s: {verdict}"
        )
        if not problems:
            self.say(
                "Each event reached its merchant, unaltered and first in the order of seq, no two first "
                "attempts of a merchant at once, none accepted twice, and every attempt is on record."
            )

    def _row(self, merchant_id: str) -> list[Text]:
        tally = self._tallies[merchant_id]
        states = self._counts.get(merchant_id, Counter())
        return [
            Text(str(tally.sent)),
            Text("yes", "green") if tally.is_in_order else Text("NO", "bold red"),
            Text(str(states[State.DELIVERED]), "green"),
            Text(str(states[State.PENDING_RETRY]), "yellow"),
            Text(str(states[State.FAILED]), "red"),
            Text(str(states[State.PENDING])),
        ]

    def _print_line(self) -> None:
        parts = []
        for merchant in cast.MERCHANTS:
            sent, order, delivered, retrying, failed, _ = (text.plain for text in self._row(merchant.id))
            broken = "" if order == "yes" else " OUT OF ORDER"
            parts.append(
                f"{merchant.id} {sent} sent {delivered} ok {retrying} retrying {failed} failed{broken}"
            )
        line = " | ".join(parts)
        if line != self._last_line:
            self._last_line = line
            self._console.print(Text(line), soft_wrap=True)

    def _count(self, arrival: Arrival) -> bool:
        """Count an arrival; False while its event's place in the order is not known yet."""
        tally = self._tallies[self._stage.merchant_of(arrival)]
        if arrival.type != TEST_EVENT_TYPE and arrival.event_id not in self._sent:
            # It may arrive before the producer has read its seq.
            written = self._stage.written.get(arrival.event_id)
            if written is None:
                return False
            self._sent.add(arrival.event_id)
            tally.sent += 1
            tally.is_in_order &= written.seq > tally.last_seq
            tally.last_seq = written.seq
            if not self._keep:
                del self._stage.written[arrival.event_id]
        tally.wrong_signatures += arrival.signature is not Signature.RIGHT
        return True
