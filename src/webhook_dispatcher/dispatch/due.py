"""Goes round the lanes that have something due, while suspects take up much of the room or some are held.

Otherwise the database picks them, the longest due first. That order would put merchants that hang in front of
all others, since their rows have been due for longest; so then lanes are named here, by cursors that go
round what is due: one for suspects, who may have few places and take turns at them, one for those held back,
who are probed in turn, and one for the rest, who are not to wait behind them. A look reads lanes, one for
each merchant, never their rows.
"""

from collections.abc import Sequence

from webhook_dispatcher.dispatch.standing import Room, Standing, Standings
from webhook_dispatcher.domain.claim import DueCursor
from webhook_dispatcher.domain.ports import Claims

LOOK = 2_000
"""Lanes read in one look."""
START = DueCursor("-infinity", "")


class DueLanes:
    """The cursors.

    is_under_way: the last look for others than suspects was cut; the rest of the round is to come.
    _held_to_come: how many more are probed in this round. Those who were probed are due again at its end, as
        fast as it goes on: it would never end by itself, and a lane due before its cursor never be probed.
    """

    def __init__(self, claims: Claims, standings: Standings) -> None:
        self._claims = claims
        self._standings = standings
        self._suspects_from = self._others_from = self._held_from = START
        self._held_to_come = 0
        self.is_under_way = False

    async def pick(self, room: Room, places: int, most: int) -> list[str]:
        """Name due lanes that may have places, each `places` of them; at most `most` places in all."""
        others, self._others_from = await self._look(
            self._others_from, room, places, most, (Standing.UNKNOWN, Standing.GOOD)
        )
        self.is_under_way = self._others_from != START
        picked = others
        left = most - places * len(picked)
        if left > 0 and room.left(Standing.SUSPECT) > 0:
            suspects, self._suspects_from = await self._look(
                self._suspects_from, room, places, left, (Standing.SUSPECT,)
            )
            picked = picked + suspects
        left = most - places * len(picked)
        if left > 0 and room.left(Standing.HELD) > 0:
            picked = picked + await self._pick_held(room, places, left)
        return picked

    async def _pick_held(self, room: Room, places: int, most: int) -> list[str]:
        """Pick of those held back; a round ends after as many as its first look that found any has found."""
        due = await self._claims.find_due(self._held_from, LOOK)
        if self._held_to_come <= 0:
            self._held_to_come = sum(self._standings.of(lane.merchant_id) is Standing.HELD for lane in due)
        picked, self._held_from = self._choose(due, room, places, most, (Standing.HELD,))
        self._held_to_come -= len(picked)
        if picked and self._held_to_come <= 0:
            self._held_from = START
        if self._held_from == START:
            self._held_to_come = 0
        return picked

    async def _look(
        self, cursor: DueCursor, room: Room, places: int, most: int, kinds: Sequence[Standing]
    ) -> tuple[list[str], DueCursor]:
        """Pick from the lanes behind a cursor; returns where to go on, the start when the round is over."""
        return self._choose(await self._claims.find_due(cursor, LOOK), room, places, most, kinds)

    def _choose(
        self, due: Sequence[DueCursor], room: Room, places: int, most: int, kinds: Sequence[Standing]
    ) -> tuple[list[str], DueCursor]:
        picked: list[str] = []
        for lane in due:
            standing = self._standings.of(lane.merchant_id)
            if standing in kinds and room.left(standing) > 0:
                room.take(standing, places)
                picked.append(lane.merchant_id)
            if len(picked) * places >= most or max(map(room.left, kinds)) <= 0:
                return picked, lane
        return picked, due[-1] if len(due) == LOOK else START
