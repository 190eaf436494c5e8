"""What keeps dispatchers from delivering, in words, and the settings of this process without secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from webhook_dispatcher.console.calls import Answer, Asked, Shown
from webhook_dispatcher.console.pages.overview import dispatcher_of
from webhook_dispatcher.storage.console.health import Health, Healths


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as this process read it. value: None where it is not set; empty where it is hidden."""

    name: str
    value: str | None
    is_chosen: bool
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was looked at. key: of the texts `health.…`, and with `.mend` of what to do about it."""

    tone: str
    key: str
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Tell whether there is nothing to do about it."""
        return self.tone == "good"


@dataclass(frozen=True, slots=True)
class HealthPage:
    """Shows both."""

    healths: Healths
    settings: Sequence[Setting]

    async def show(self, asked: Asked) -> Answer:
        """Show what was found, the worst first."""
        health = await self.healths.get(asked.key)
        findings = sorted(
            findings_of(health), key=lambda finding: ("bad", "warn", "good").index(finding.tone)
        )
        facts = {
            "findings": findings,
            "dispatchers": [dispatcher_of(row) for row in health.dispatchers],
            "health": health,
            "settings": self.settings,
        }
        return Shown("health.html", facts)


def findings_of(health: Health) -> Sequence[Finding]:
    """Say of each thing how it is."""
    alive = [row for row in health.dispatchers if row.is_alive]
    return (
        _dispatchers(health, len(alive)),
        *(
            Finding("bad", "unready", {"host": row.host, "reason": "; ".join(row.reasons)})
            for row in alive
            if not row.is_ready
        ),
        *(
            Finding("bad", "fault", {"host": row.host, "fault": fault})
            for row in alive
            for fault in row.faults
        ),
        _sealing_key(health),
        _partitions(health),
        _server(health),
        Finding("warn", "paused") if health.everything_is_paused else Finding("good", "not_paused"),
        Finding("warn", "suspended", {"number": health.suspended})
        if health.suspended
        else Finding("good", "none_suspended"),
        Finding("good", "charges") if health.has_charge_index else Finding("warn", "no_charges"),
        Finding("good", "database", {"server": health.server_version, "schema": health.schema_version}),
    )


def _dispatchers(health: Health, alive: int) -> Finding:
    if not alive:
        return Finding("bad", "nobody")
    versions = sorted({row.version for row in health.dispatchers if row.is_alive})
    if len(versions) > 1:
        return Finding("warn", "versions", {"versions": ", ".join(versions)})
    return Finding("good", "alive", {"number": alive})


def _sealing_key(health: Health) -> Finding:
    confirmed = health.sealing_key_confirmed_at
    if confirmed is None or health.now - confirmed > timedelta(hours=1):
        return Finding("warn", "no_key")
    return Finding("good", "key", {"key": health.sealing_key_id})


def _partitions(health: Health) -> Finding:
    if health.missing:
        log, day = health.missing[0]
        return Finding("bad", "partition", {"log": log, "day": str(day)})
    return Finding("good", "partitions", {"since": str(health.kept_since), "until": str(health.made_until)})


def _server(health: Health) -> Finding:
    if health.has_moved:
        return Finding("bad", "moved")
    return Finding("good", "installation", {"name": health.installation})
