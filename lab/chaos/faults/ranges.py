"""Commands about a range of time: recovered, and skipped; some are stopped in the midst."""

from collections.abc import Sequence
from typing import Any

from lab.chaos.evidence import Repeats
from lab.chaos.faults.asking import PATIENCE, CommandRequest, ask, ended, rejected, taken_up
from lab.chaos.hit import Hit
from lab.chaos.kinds import NotHitError, Track, fault
from lab.chaos.testbed import Testbed

AGO = "SELECT clock_timestamp() - $1::float8 * interval '1 second' AS instant"
STOP = "SELECT webhook.stop_command($1, 'operator')"
OWING = """
SELECT webhook.merchant_of(merchant_id) AS merchant_id FROM webhook.owed
WHERE webhook.merchant_of(merchant_id) <> '$platform'
GROUP BY webhook.merchant_of(merchant_id)
ORDER BY random()
LIMIT 1
"""
STATES: Sequence[Sequence[str]] = (
    (),
    ("delivered",),
    ("failed",),
    ("pending_retry",),
    ("failed", "skipped"),
    ("skipped",),
)
"""What is recovered; nothing said: all three states."""
LATEST = 60.0
"""Seconds that a range of what was delivered may lie back; of what was not, which is little, longer."""
LOOKED_AT = 5.0
"""Seconds for which a recover is waited for; the next fault may come while it goes on."""


@fault("a range of time recovered", Track.OPERATORS, Repeats.NONE)
async def recover(testbed: Testbed, hit: Hit) -> None:
    """Send a merchant's or everybody's deliveries again, while whatever else goes on."""
    random = testbed.random
    states = random.choice(STATES)
    is_much = not states or "delivered" in states
    since = random.uniform(2, LATEST) if is_much else random.uniform(LATEST, 5 * LATEST)
    merchant_id = random.choice(testbed.merchants) if random.random() < (0.5 if is_much else 0.2) else None
    args: dict[str, Any] = {"since": await _ago(testbed, since)}
    if states:
        args["states"] = list(states)
    if is_much and merchant_id is None:
        args["until"] = await _ago(testbed, since - random.uniform(1, 10))
    if random.random() < 0.2:
        args["limit"] = random.randrange(1, 100)
    ids = await ask(testbed, [CommandRequest("recover", merchant_id, args=args)])
    hit.note = f"{merchant_id or 'all'}, {', '.join(states) or 'all states'}"
    if random.random() < 0.2:
        await testbed.wait(random.uniform(0, 1.5))
        await _stop(testbed, hit, ids)
    await ended(testbed, ids, LOOKED_AT)
    hit.note = "; ".join([hit.note, *await rejected(testbed, ids)])


async def _ago(testbed: Testbed, seconds: float) -> str:
    [row] = await testbed.server.fetch(AGO, seconds, patience=PATIENCE)
    return str(row["instant"].isoformat())


async def _stop(testbed: Testbed, hit: Hit, ids: Sequence[int]) -> None:
    for command_id in ids:
        await testbed.server.fetch(STOP, command_id, patience=PATIENCE)
    hit.note += ", stopped"


@fault("what is old skipped", Track.OPERATORS, Repeats.NONE)
async def skip(testbed: Testbed, hit: Hit) -> None:
    """Give up what a merchant is owed, or now and then everybody, before an instant."""
    before = await _ago(testbed, testbed.random.choice((0.0, 1.0, 5.0)))
    merchant_id: str | None = None
    if testbed.random.random() < 0.8:
        merchant_id = await _who_is_owed(testbed)
    args = {"before": before} if merchant_id else {"before": before, "all": True}
    ids = await ask(testbed, [CommandRequest("skip", merchant_id, args=args)])
    hit.note = merchant_id or "all"
    if testbed.random.random() < 0.2:
        await _stop(testbed, hit, ids)
    await ended(testbed, ids, LOOKED_AT)


async def _who_is_owed(testbed: Testbed) -> str:
    """Choose a merchant that is owed something, as soon as there is one."""
    for _ in range(200):
        rows = await testbed.server.fetch(OWING, patience=PATIENCE)
        if rows:
            return str(rows[0]["merchant_id"])
        await testbed.wait(0.05)
    raise NotHitError("nothing is owed")


@fault("paused, skipped and resumed", Track.OPERATORS, Repeats.NONE)
async def skip_paused(testbed: Testbed, hit: Hit) -> None:
    """Pause merchants, give up what gathers, and resume; the resume waits until the skip has ended."""
    with testbed.borrow(4) as merchants:
        hit.touches(merchants)
        pauses = await ask(testbed, [CommandRequest("pause", merchant_id) for merchant_id in merchants])
        try:
            await taken_up(testbed, pauses)
            await testbed.wait(testbed.random.uniform(0.5, 2))
            before = {"before": await _ago(testbed, testbed.random.uniform(0, 0.5))}
            await ask(
                testbed, [CommandRequest("skip", merchant_id, args=before) for merchant_id in merchants]
            )
        finally:
            resumes = await ask(testbed, [CommandRequest("resume", merchant_id) for merchant_id in merchants])
            await taken_up(testbed, resumes)
        hit.note = "; ".join(await rejected(testbed, [*pauses, *resumes]))
