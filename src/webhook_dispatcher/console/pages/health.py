"""What `check` says, as far as the database and this process know, and settings without secrets.

Those of dispatchers as they note them, and those of this process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from webhook_dispatcher.console.calls import Page, Request, Response
from webhook_dispatcher.console.pages.overview import dispatcher_of
from webhook_dispatcher.console.pages.sentences import Stretch, sentence
from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.diagnosis import findings
from webhook_dispatcher.diagnosis.findings import Finding, Level
from webhook_dispatcher.diagnosis.vocabulary import label
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.status import DispatcherFacts
from webhook_dispatcher.storage.console.health import MAX_NAMED, MAX_URLS, Health, Healths
from webhook_dispatcher.storage.console.overview import DispatcherRow
from webhook_dispatcher.transport.guard import Guard

TONES = {Level.BAD: "bad", Level.NOTE: "warn", Level.GOOD: "good"}
"""The colour of each level, in the order in which the page has them: the worst first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as this process read it. value: None where it is not set; empty where it is hidden."""

    name: str
    value: str | None
    is_chosen: bool
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting that some dispatcher has chosen. values: each with its hosts; None: as by default."""

    name: str
    values: Sequence[tuple[str | None, str]]


@dataclass(frozen=True, slots=True)
class FindingLine:
    """A finding in the reader's words."""

    tone: str
    label: str
    parts: Sequence[Stretch]
    mend: Sequence[Stretch]


@dataclass(frozen=True, slots=True)
class HealthPage:
    """Shows findings and settings. installation: the name that the database must have, where one is set."""

    healths: Healths
    clock: Clock
    guard: Guard
    installation: str | None
    settings: Sequence[Setting]

    async def show(self, request: Request) -> Response:
        """Show what was found, the worst first."""
        before = self.clock.unix()
        health = await self.healths.get(request.key)
        ahead = timedelta(seconds=(before + self.clock.unix()) / 2 - health.now.timestamp())
        found = sorted(self.findings(health, ahead), key=lambda finding: list(TONES).index(finding.level))
        facts = {
            "findings": [_line(finding, request.reader) for finding in found],
            "dispatchers": [dispatcher_of(row, request.reader) for row in health.dispatchers],
            "chosen": _chosen(health.dispatchers),
            "settings": self.settings,
        }
        return Page("health.html", facts)

    def findings(self, health: Health, ahead: timedelta) -> Iterator[Finding]:
        """Say of each thing how it is. ahead: how far this machine's clock is before the database's."""
        yield from findings.of_dispatchers(health.now, [_dispatcher(row) for row in health.dispatchers])
        if health.stranded is not None:
            yield findings.of_stranded(health.stranded)
        yield findings.of_installation(
            health.installation, self.installation, health.known_server, health.server
        )
        yield findings.of_missing_partitions(health.missing)
        if health.everything_is_paused:
            pause = health.pause
            since, by = (pause.handled_at, pause.requested_by) if pause else (None, None)
            yield findings.of_pause(since, by)
        yield findings.of_suspended(health.suspended_next, health.suspended)
        yield from self._endpoints(health.urls)
        yield findings.of_clock(ahead, is_console=True)
        yield findings.of_sealing_key(health.now, health.sealing_key_id, health.sealing_key_confirmed_at)
        yield findings.of_charges(health.has_charge_index)
        yield findings.of_database(health.server_version, health.schema_version, health.kept)

    def _endpoints(self, urls: Sequence[tuple[str, str]]) -> Iterator[Finding]:
        forbidden = [
            (merchant, fault)
            for merchant, url in urls[:MAX_URLS]
            if (fault := self.guard.find_fault(url)) is not None
        ]
        for merchant, fault in forbidden[:MAX_NAMED]:
            yield findings.of_forbidden(merchant, fault)
        if len(forbidden) > MAX_NAMED:
            yield findings.of_more_forbidden(len(forbidden) - MAX_NAMED)
        if not forbidden:
            yield findings.of_allowed(MAX_URLS if len(urls) > MAX_URLS else None)


def _chosen(dispatchers: Sequence[DispatcherRow]) -> Sequence[Chosen]:
    """Say what the dispatchers that are alive have chosen, and who has it where they differ."""
    noted = [(row.host, row.settings) for row in dispatchers if row.is_alive]
    found = []
    for name in sorted({name for _, settings in noted for name in settings}):
        hosts: dict[str | None, set[str]] = {}
        for host, settings in noted:
            hosts.setdefault(settings.get(name), set()).add(host)
        found.append(Chosen(name, [(value, ", ".join(sorted(of))) for value, of in hosts.items()]))
    return found


def _dispatcher(row: DispatcherRow) -> DispatcherFacts:
    return DispatcherFacts(
        row.owner,
        row.version,
        row.started_at,
        row.beat_at,
        row.is_ready,
        row.reasons,
        row.faults,
        row.lanes,
    )


def _line(finding: Finding, reader: Reader) -> FindingLine:
    return FindingLine(
        TONES[finding.level],
        label(finding.label, reader.language),
        sentence(finding.said, reader),
        () if finding.mend is None else sentence(finding.mend, reader),
    )
