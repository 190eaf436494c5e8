"""What the demo shows while it runs: each request, above a table on a terminal, between plain lines else."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from webhook_dispatcher.cli.demo import cast, feed
from webhook_dispatcher.cli.demo.stage import Stage
from webhook_dispatcher.domain.event import State

LIVE_INTERVAL_SECONDS = 0.25
LIVE_LINES = 10
PLAIN_INTERVAL_SECONDS = 2.0
PLAIN_LINES = 40
COLUMNS = ("sent", "in order", "delivered", "retrying", "failed", "waiting")


class View:
    """Shows what the ledger and the database say."""

    def __init__(self, stage: Stage, console: Console) -> None:
        self._stage = stage
        self._console = console
        self._counts: Mapping[str, Counter[str]] = {}
        self._last_line = ""
        self._unnamed = {"the Partner API": stage.api, "the console": stage.console}
        self._sign_in_text = ""

    def say(self, text: str) -> None:
        """Print a line, above the table if there is one."""
        self._console.print(Text(text))

    async def run(self) -> None:
        """Show how it stands, again and again until cancelled."""
        if not self._console.is_terminal:
            while True:
                await self.refresh()
                if await self._renew_sign_in_text():
                    self.say(self._sign_in_text)
                self._show_requests(PLAIN_LINES)
                self._print_line()
                await asyncio.sleep(PLAIN_INTERVAL_SECONDS)
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                await self.refresh()
                await self._renew_sign_in_text()
                self._show_requests(LIVE_LINES)
                live.update(Group(self.table(), Text(self._sign_in_text, "bold")), refresh=True)
                await asyncio.sleep(LIVE_INTERVAL_SECONDS)

    async def refresh(self) -> None:
        """Look at what is new."""
        for sequence in self._stage.ledger.sequences.values():
            sequence.judge(self._stage.seqs)
        self._counts = await self._stage.count_by_state()
        for name, program in list(self._unnamed.items()):
            if (url := program.url()) is not None:
                del self._unnamed[name]
                self.say(f"{name} at {url}")
            elif program.code is not None:
                del self._unnamed[name]
                self.say(f"{name} ended with {program.code}: {program.log_tail()}")

    async def _renew_sign_in_text(self) -> bool:
        """Find out how whoever watches can sign in at the console; tell whether there is a new way."""
        before = self._sign_in_text
        if self._stage.console.url() is not None:
            self._sign_in_text = await self._stage.sign_in.instruction() or ""
        return bool(self._sign_in_text) and self._sign_in_text != before

    def _show_requests(self, most: int) -> None:
        for line in feed.lines(self._stage.ledger.unshown, most):
            self._console.print(line, soft_wrap=True)

    def table(self) -> Table:
        """Draw how it stands."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("merchant", style="bold")
        table.add_column("its receiver")
        for column in COLUMNS:
            table.add_column(column, justify="right")
        for merchant in cast.MERCHANTS:
            table.add_row(merchant.id, self._stage.characters[merchant.id], *self._row(merchant.id))
        return table

    async def conclude(self) -> None:
        """Print the table as it stands in the end."""
        await self.refresh()
        self._console.print(self.table())

    def _row(self, merchant_id: str) -> list[Text]:
        sequence = self._stage.ledger.sequences[merchant_id]
        states = self._counts.get(merchant_id, Counter())
        return [
            Text(str(sequence.sent)),
            Text("yes", "green") if sequence.is_in_order else Text("NO", "bold red"),
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
