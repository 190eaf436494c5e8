"""Tells our own faults from merchants' (I10), so that they do not use up merchants' attempts.

The kinds of faults, and how each is recognised:

- local: the sender reports it (no file descriptors, no route, name servers or proxy that cannot be reached).
  It does so only where no merchant's name, address or answer can be the reason, so one report is enough.
- signer: one of our signatures does not verify. Checked after each answer of 400, 401 or 403.
- clock: this machine's clock and the database's are further apart than MAX_CLOCK_DIFFERENCE.
- stall: the event loop stood still while an attempt was in flight, so its time-out is ours.
- fleet: nearly all merchants that worked fail alike: our name server, certificates or network, or theirs.
  This is only a suspicion (suspicion.py): merchants that fail so are held back, and these failures do not
  count.

A signer fault opens the circuit breaker: nothing is sent but a probe once a second, until a signature
verifies. While the clock is off, nothing is sent at all. A local fault holds back those who show it, as a
suspicion does: whoever has a connection goes on, and where nobody has, all come to show it, with one attempt
each. A stall stops nothing; the attempts it hit do not count.
"""

from dataclasses import dataclass

import structlog

from webhook_dispatcher.dispatch.health.lanes import NO_ADDRESS, Evidence
from webhook_dispatcher.dispatch.health.suspicion import OURS, Suspicions
from webhook_dispatcher.domain.clock import Clock, DatabaseClock
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.lane import told
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

PROBE_INTERVAL = 1.0
"""Seconds between two probes."""
MAX_CLOCK_DIFFERENCE = 30.0
"""Seconds that the clocks may be apart (I10); receivers tolerate 300."""
STEP_DOUBTED = 86_400.0
"""Seconds for which nothing is forgotten after the database's clock was set."""
SETTLING = 5.0
"""Seconds for which nobody may have shown a local fault before it is said to be over."""
MAX_BEAT_INTERVAL = 1.0
"""Seconds; with more between two beats, the event loop stood still."""

_log = structlog.get_logger()


@dataclass(slots=True)
class _Fault:
    """A fault that attempts have shown, and when one did so last (clock reading in seconds)."""

    kind: str
    detail: str
    last_at: float


class OwnFaults:
    """Watches how attempts end, the clocks and the event loop.

    circuit_is_open: only probes may be sent. signer_is_broken: each signature must be verified before it is
        sent. held: the lanes that are held back: they may be sent only probes.
    """

    def __init__(self, clock: Clock, database_clock: DatabaseClock, metrics: Metrics) -> None:
        self._clock = clock
        self._database_clock = database_clock
        self._metrics = metrics
        self._signer: _Fault | None = None
        self._local: _Fault | None = None
        self._clock_is_off = False
        self._probe_at = 0.0
        self._beat_at = self._stalled_at = clock.elapsed()
        self._fleet_is_at_fault = False
        self._evidence = Evidence(clock)
        self.suspicions = Suspicions(clock, self._evidence)
        self.held = self.suspicions.held
        self.circuit_is_open = self.signer_is_broken = False

    @property
    def reasons(self) -> list[str]:
        """Say what is wrong on our side, for operators; empty when nothing is."""
        faults = [fault for fault in (self._signer, self._local) if fault is not None]
        reasons = [f"a fault of our own ({fault.kind}): {fault.detail}" for fault in faults]
        if (mark := self.suspicions.believed()) is not None:
            reasons.append(f"a fault of our own (fleet): attempts fail with {mark}, and none is answered")
        if self._clock_is_off:
            reasons.append(self._clock_fault())
        return reasons

    def is_probe_only(self, lane: str) -> bool:
        """Tell whether whatever is sent from a lane now is a probe."""
        return self.circuit_is_open or lane in self.held

    @property
    def probes(self) -> int:
        """Return how many lanes that are held back may be tried now."""
        return int(len(self.held) > 0 and self.may_probe())

    def may_probe(self) -> bool:
        """Tell whether a probe may be sent now."""
        now = self._clock.elapsed()
        return not self._clock_is_off and now >= self._probe_at

    def has_worked(self, lane: str) -> bool:
        """Tell whether something of a lane was accepted in the last ten minutes."""
        return self._evidence.trusts(lane)

    def note_probe(self) -> None:
        """Count a probe as sent."""
        self._probe_at = self._clock.elapsed() + PROBE_INTERVAL

    def beat(self) -> None:
        """Learn that the event loop is running, and compare the clocks; called at short intervals."""
        now = self._clock.elapsed()
        if now - self._beat_at > MAX_BEAT_INTERVAL:
            self._stalled_at = now
            _log.warning("event_loop.stalled", seconds=round(now - self._beat_at, 1))
        self._beat_at = now
        self.compare_clocks()
        self._look_at_fleet()
        if self._local is None or self.suspicions.is_any_ours or now - self._local.last_at < SETTLING:
            return
        # It is over for everybody, and has not come back for a while.
        self._end(self._local)
        self._local = None

    def compare_clocks(self) -> bool:
        """Compare the clocks, and tell whether receivers would accept what is signed now."""
        is_off = abs(self._database_clock.ahead_by()) > MAX_CLOCK_DIFFERENCE
        if is_off != self._clock_is_off:
            self._clock_is_off = is_off
            self._metrics.own_fault.labels("clock").set(is_off)
            if is_off:
                _log.error("fault.began", kind="clock", detail=self._clock_fault())
            else:
                _log.info("fault.ended", kind="clock")
            self._set_circuit()
        return not is_off

    def _clock_fault(self) -> str:
        return f"this machine's clock is {-self._database_clock.ahead_by():+.0f} s off the database's"

    def clock_doubt(self) -> str:
        """Say why nothing should be forgotten for its age now; empty where clocks are not in doubt."""
        if not self._database_clock.is_known:
            return "the database's clock was not read yet"
        if not self.compare_clocks():
            return "the clocks of this machine and of the database are apart"
        if self._clock.elapsed() - self._database_clock.stepped_at < STEP_DOUBTED:
            return "the database's clock was set within the last day"
        return ""

    def _set_circuit(self) -> None:
        self.signer_is_broken = self._signer is not None
        self.circuit_is_open = self.signer_is_broken or self._clock_is_off

    def counts(self, event: Event, result: Answer | Failure, started: float) -> bool:
        """Learn how an attempt ended, and tell whether it counts, as the merchant's.

        started: clock reading in seconds when it began.
        """
        if isinstance(result, Failure):
            return self._learn_failure(event, result, started)
        outcome, lane = result.outcome, event.lane
        self._signed_well(started)
        if self.suspicions.marks:
            self.suspicions.contradict(lane, started, is_fresh=result.is_fresh)
        self._evidence.answered(
            lane,
            result.origin or lane,
            started,
            is_first=event.attempts == 0,
            is_fresh=result.is_fresh,
            is_accepted=outcome is Outcome.DELIVERED,
        )
        return outcome is Outcome.DELIVERED or not self._clock_is_off

    def _learn_failure(self, event: Event, result: Failure, started: float) -> bool:
        if result.is_ours:
            self._learn_own(event, result)
            return False
        if result.outcome is Outcome.UNSENDABLE:
            return True
        self._signed_well(started)
        now = self._clock.elapsed()
        has_stalled = self._stalled_at > started or now - self._beat_at > MAX_BEAT_INTERVAL
        if result.outcome is Outcome.TIMEOUT and has_stalled:
            return False
        if result.outcome in _FURTHER:
            self.suspicions.got_further(event.lane, started, has_address=result.has_address)
        was_suspected = len(self.held) > 0
        mark = result.outcome if result.has_address else f"{result.outcome}{NO_ADDRESS}"
        # Nearly all lanes may fail so: then it may be our fault, and does not count.
        is_excused = self.suspicions.excuses(
            event.lane, result.origin or event.lane, started, mark, is_first=event.attempts == 0
        )
        if is_excused and not was_suspected:
            self._probe_at = now + PROBE_INTERVAL
        return not (is_excused or self._clock_is_off)

    def _learn_own(self, event: Event, failure: Failure) -> None:
        """Learn of a fault that the sender knows to be ours."""
        now = self._clock.elapsed()
        # The only fault of ours that makes an event unsendable is a wrong signature.
        if failure.outcome is Outcome.UNSENDABLE:
            if self._signer is None:
                self._signer = self._begin("signer", event.lane, failure.detail, now)
                self._set_circuit()
            return
        self.suspicions.hold_back(event.lane, OURS if failure.has_address else f"{OURS}{NO_ADDRESS}")
        if self._local is None:
            self._local = self._begin("local", event.lane, failure.detail, now)
        self._local.last_at = now

    def _signed_well(self, started: float) -> None:
        """Learn that an attempt's signature verifies: while the signer is broken, nothing else is sent."""
        if self._signer is not None and started >= self._signer.last_at:
            self._end(self._signer)
            self._signer = None
            self._set_circuit()

    def _look_at_fleet(self) -> None:
        """Log when a suspicion becomes believed and when it ceases to be, and show it in the metrics."""
        mark = self.suspicions.believed()
        self._metrics.merchants_held_back.set(len(self.held))
        if (is_believed := mark is not None) == self._fleet_is_at_fault:
            return
        self._fleet_is_at_fault = is_believed
        self._metrics.own_fault.labels("fleet").set(is_believed)
        if is_believed:
            detail, held = f"attempts fail with {mark}, and none is answered", len(self.held)
            _log.error("fault.began", kind="fleet", detail=detail, merchants_held_back=held)
        else:
            _log.info("fault.ended", kind="fleet")

    def _begin(self, kind: str, lane: str, detail: str, now: float) -> _Fault:
        self._probe_at = now + PROBE_INTERVAL
        self._metrics.own_fault.labels(kind).set(1)
        _log.error("fault.began", kind=kind, detail=detail, **told(lane))
        return _Fault(kind, detail, now)

    def _end(self, fault: _Fault) -> None:
        _log.info("fault.ended", kind=fault.kind)
        self._metrics.own_fault.labels(fault.kind).set(0)


# How attempts fail that got further than this machine, its name servers and its proxy.
_FURTHER = frozenset((Outcome.DNS, Outcome.CONNECT, Outcome.TLS, Outcome.DISCONNECTED, Outcome.BAD_RESPONSE))
