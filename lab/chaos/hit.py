"""Notes about one fault while it lasts: whom it hit, and in which phase of their deliveries."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from lab.chaos.evidence import Injection, Phase
from lab.chaos.fleet import Victim
from lab.chaos.gauge import Gauge
from lab.chaos.kinds import Kind


class Hit:
    """Taken down by a fault's function; becomes an Injection when that has returned.

    note: what exactly was done. stops_all: nobody can deliver anything while it lasts.
    lingers: for how many seconds more its merchants may wait for what it did. alone_since: from when
    on no other fault lasted. slowness: by how many seconds the machine let us wait for our turn meanwhile.
    forgets_from: from when on what was committed is lost by it. moved: whose names lead where since then.
    """

    def __init__(self, number: int, kind: Kind) -> None:
        self.number = number
        self.kind = kind
        self.note = ""
        self.stops_all = False
        self.lingers = 0.0
        self.alone_since: float | None = None
        self.slowness = 0.0
        self.forgets_from: float | None = None
        self.moved: Mapping[str, str] = {}
        self._ended: float | None = None
        self._began = time.monotonic()
        self._merchants: set[str] = set()
        self._gauges: dict[str, Gauge] = {}
        self._phases: Counter[Phase] = Counter()

    @property
    def is_blank(self) -> bool:
        """Tell whether nothing is noted yet: then nothing was done."""
        return not (self.note or self._gauges or self._merchants)

    def begins(self) -> None:
        """Count the fault from now on: what came before was waiting for it."""
        self._began = time.monotonic()

    def ends(self) -> None:
        """Count the fault until now: it is healed, and what follows only looks at what came of it."""
        self._ended = time.monotonic()

    def stands_alone(self) -> None:
        """Note that no other fault lasts from now on."""
        self.alone_since = time.monotonic()

    def strikes(self, *victims: Victim) -> None:
        """Note that these daemons are hit from now on: where their attempts stand, and how many are exposed.

        For a fault that lasts: the most that are exposed meanwhile is taken at its end.
        """
        for victim in victims:
            if victim.name not in self._gauges:
                self._phases.update(victim.gauge.phases())
                victim.gauge.begin_watch(self.kind.track)
                self._gauges[victim.name] = victim.gauge

    def strikes_at_once(self, *victims: Victim) -> None:
        """Note that these daemons have just been stopped dead: their gauges say what they left behind."""
        for victim in victims:
            self._phases.update(victim.gauge.phases())
            victim.gauge.begin_watch(self.kind.track)
            self._gauges[victim.name] = victim.gauge

    def touches(self, merchants: Iterable[str]) -> None:
        """Note whose endpoint, lane or rows an operator touches."""
        self._merchants.update(merchants)

    def done(self) -> Injection:
        """Close the notes: the fault is healed."""
        return Injection(
            number=self.number,
            kind=self.kind.name,
            repeats=self.kind.repeats,
            began=self._began,
            ended=time.monotonic() if self._ended is None else self._ended,
            daemons=frozenset(self._gauges),
            merchants=frozenset(self._merchants),
            stops_all=self.stops_all,
            lingers=self.lingers,
            phases=dict(self._phases),
            exposed=sum(gauge.most_exposed(self.kind.track) for gauge in self._gauges.values()),
            alone_since=self.alone_since,
            slowness=self.slowness,
            forgets_from=self.forgets_from,
            moved=dict(self.moved),
            note=self.note,
        )
