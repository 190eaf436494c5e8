"""Kept connections under load, at a receiver that closes idle ones whenever it likes: no attempt may fail."""

import asyncio
import random
from collections import Counter
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

from tests.network.misbehaviour import authority, good_context
from tests.network.raw_receiver import OK, RawReceiver, Request
from webhook_dispatcher.domain.verdict import Answer, Failure
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

GUARD = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),)))
AT_ONCE = 20
EACH = 30


class Fickle:
    """Closes a connection some time after its last answer, or on the very request that comes in just then."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._idle: dict[int, asyncio.TimerHandle] = {}
        self._used: set[int] = set()
        self.let_down = 0

    async def __call__(self, request: Request) -> None:
        end = self._chance.choice((Request.close, Request.reset))
        timer = self._idle.pop(request.connection, None)
        if timer is not None:
            timer.cancel()
        if request.connection in self._used and self._chance.random() < 0.2:
            self.let_down += 1
            end(request)
            return
        self._used.add(request.connection)
        await request.answer(OK)
        later = asyncio.get_running_loop().call_later
        self._idle[request.connection] = later(self._chance.uniform(0, 0.06), end, request)


async def test_idle_connections_closed_at_random_moments_fail_no_attempt(tmp_path: Path) -> None:
    asyncio.get_running_loop().set_debug(False)  # it would slow the load down
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    chance = random.Random(42)
    fickle = Fickle(chance)

    async def post_many(sender: Sender, worker: int) -> list[Answer | Failure]:
        seen = []
        for number in range(EACH):
            body = f"{worker}/{number}".encode()
            seen.append(await sender.post(receiver.url(), {}, body))
            await asyncio.sleep(chance.uniform(0, 0.03))
        return seen

    async with (
        RawReceiver(fickle, good_context()) as receiver,
        Sender(GUARD, timedelta(seconds=20), "test", tmp_path / "ca.pem") as sender,
    ):
        seen = await asyncio.gather(*[post_many(sender, worker) for worker in range(AT_ONCE)])

    assert [one for many in seen for one in many if one != Answer(200)] == []
    assert fickle.let_down > 0, "the receiver never closed a kept connection under a request"
    # What was lost on a stale connection was sent once more and not again.
    times = Counter(request.body for request in receiver.requests)
    assert len(times) == AT_ONCE * EACH
    assert set(times.values()) == {1, 2}
