"""What can happen in the claim model, and how often: the steps of test_claim_model.

Each takes three numbers: who it happens to, which of several things it is about, and in which way. Some are
several steps in a row, since what is worth judging lies deeper than chance alone would go.
"""

from collections.abc import Awaitable, Callable, Mapping

from tests.integration.claim_model.daemon import ENDS, LEASE
from tests.integration.claim_model.model import LANE_DOOR, OUTBOX_DOOR, ClaimModel
from tests.integration.claim_model.surroundings import MERCHANTS

Action = Callable[[ClaimModel, int, int, int], Awaitable[None]]

MANY = 20
"""Events beyond which no more are committed: more of them show nothing new."""
PAUSES = (0.05, 0.3, 1.0, 3.0)
LONG = LEASE.total_seconds() + 1
PARTS = ("look", "record", "retry", "sweep", "heed", "look")
LOSSES = (("look", "lease"), ("look", "read_runs"), ("retry", "claim_longest_due"), ("record", "write_late"))
HELD = (
    ("look", "lease", LANE_DOOR),
    ("look", "lease", LANE_DOOR),
    ("look", "lease", LANE_DOOR),
    ("look", "read_runs", OUTBOX_DOOR),
    ("retry", "claim_longest_due", LANE_DOOR),
    ("retry", "claim_longest_due", OUTBOX_DOOR),
    ("record", "write", LANE_DOOR),
    ("record", "write", LANE_DOOR),
    ("record", "write", OUTBOX_DOOR),
    ("record", "write_late", LANE_DOOR),
    ("record", "write_late", OUTBOX_DOOR),
    ("sweep", "sweep", OUTBOX_DOOR),
)
COMMANDS = ("retry", "cancel", "pause", "resume")


async def commit(model: ClaimModel, who: int, which: int, way: int) -> None:
    """Producers commit an event or several of one merchant."""
    if len(model.facts.events) < MANY:
        await model.insert(MERCHANTS[who % len(MERCHANTS)], 1 + way)


async def open_transaction(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A producer inserts, and does not commit yet."""
    await model.begin_insert(MERCHANTS[who % len(MERCHANTS)])


async def end_transaction(model: ClaimModel, who: int, which: int, way: int) -> None:
    """It commits, or now and then not; where there is none one begins."""
    if not await model.end_insert(which, is_committed=way > 0):
        await open_transaction(model, who, which, way)


async def serve(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon does all it can, once or twice; one time in four everything it sends fails."""
    for _ in range(1 + which % 2):
        await model.serve(model.living(who), is_good=way > 0)


async def start(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon claims what there is, and is left waiting for answers."""
    daemon = model.living(who)
    for part in ("sweep", "look", "retry")[way % 2 :]:
        await model.step(daemon, part)


async def fail(model: ClaimModel, who: int, which: int, way: int) -> None:
    """What a daemon sends fails, and is tried again: that is in flight now."""
    await model.serve(model.living(who), is_good=False)
    await model.pass_time(1.0)
    await model.step(model.living(who), "retry")


async def step(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon makes one step."""
    await model.step(model.living(who), PARTS[which % len(PARTS)])


async def answer(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A merchant answers, or fails to; a frozen daemon reads it later."""
    if not await model.answer(which, way % len(ENDS)):
        await start(model, who, which, way)


async def record(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon writes what it has; one time in four it does not hear that it is written."""
    daemon = model.living(who)
    if not way:
        daemon.records.lost = "write"
    await model.step(daemon, "record")


async def lose_reply(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon does not hear what became of a statement."""
    daemon, (part, call) = model.living(who), LOSSES[way]
    (daemon.records if part == "record" else daemon.claims).lost = call
    await model.step(daemon, part)


async def wait(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A little time passes."""
    await model.pass_time(PAUSES[way])


async def serve_for_long(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon works for longer than a gap is waited for."""
    for _ in range(6):
        await model.pass_time(2.0)
        await model.serve(model.living(who))


async def lapse(model: ClaimModel, who: int, which: int, way: int) -> None:
    """Nobody reaches the database for longer than a lease."""
    await model.pass_time(LONG)


async def crash(model: ClaimModel, who: int, which: int, way: int) -> None:
    await model.crash(model.living(who))


async def freeze(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon stands still; mostly for longer than its leases, and another one goes on.

    What it has in flight is mostly answered meanwhile, which it learns when it goes on.
    """
    frozen = model.living(who)
    if which % 3 == 1:
        await start(model, who, which, 0)
    elif which % 3 == 2:
        await fail(model, who, which, way)
    model.arrive()
    await model.freeze(frozen)
    if way:
        if way > 1:
            await model.answer_all(frozen, is_good=way > 2)
        await model.pass_time(LONG)
        await start(model, who, which, 0)


async def thaw(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A frozen daemon goes on with what it knew, and mostly writes it."""
    daemon = await model.thaw(who)
    if daemon is None:
        await freeze(model, who, which, way)
    elif way:
        await model.step(daemon, "record")


async def zombie(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon freezes with an attempt in flight, another takes over, and mostly it comes back at once."""
    await freeze(model, who, 1 + which % 2, 2 + way % 2)
    if way < 3:
        await thaw(model, who, which, 1)


async def overlap(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A statement has taken its snapshot and is held; another daemon, or another part, goes on meanwhile."""
    held, other = model.living(who), model.living(who + way % 2)
    part, call, door = HELD[which]
    if part == "look":
        await commit(model, which, which, 0)
        await model.step(held, "sweep")
    elif part == "retry":
        await model.serve(other, is_good=False)
        await model.pass_time(1.0)

    async def then() -> None:
        if part == "record" and way == 3:
            await model.change_filter(MERCHANTS[who % len(MERCHANTS)])
        if other is not held and part != "record":
            await model.serve_out(other)
            return
        for name in ("record", "look", "retry", "record")[way // 2 :]:
            if other is not held or name != part:
                await model.step(other, name)
        model.arrive()
        await model.answer_all(other)
        if other is not held or part != "record":
            await model.step(other, "record")

    await model.overlap(held, part, call, door, then)


async def lock(model: ClaimModel, who: int, which: int, way: int) -> None:
    """An operator locks a row, or a lane."""
    await model.lock("lane" if way == 0 else "outbox", which)


async def unlock(model: ClaimModel, who: int, which: int, way: int) -> None:
    """The operator lets go, or takes a lock if there is none."""
    if not await model.unlock():
        await lock(model, who, which, way)


async def delete(model: ClaimModel, who: int, which: int, way: int) -> None:
    await model.delete(which)


async def command(model: ClaimModel, who: int, which: int, way: int) -> None:
    await model.command(model.living(who), COMMANDS[way], which)


async def recall(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A merchant's URL is changed: its lane is recalled; most daemons hear of it."""
    await model.change_url(MERCHANTS[which % len(MERCHANTS)])
    if way:
        await model.step(model.living(who), "heed")


async def change_filter(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A merchant wants other types, which recalls its lane; most daemons hear of it."""
    await model.change_filter(MERCHANTS[which % len(MERCHANTS)])
    if way:
        await model.step(model.living(who), "heed")


async def refilter(model: ClaimModel, who: int, which: int, way: int) -> None:
    """A daemon passes over what is not wanted, and that is wanted again before it mostly writes it."""
    merchant, daemon = MERCHANTS[which % len(MERCHANTS)], model.living(who)
    await model.change_filter(merchant)
    await commit(model, which, which, 2)
    await start(model, who, which, 0)
    await model.change_filter(merchant)
    if way:
        await model.step(daemon, "record")


ACTIONS: Mapping[str, tuple[int, Action]] = {
    "commit": (5, commit),
    "open_transaction": (2, open_transaction),
    "end_transaction": (2, end_transaction),
    "serve": (6, serve),
    "start": (5, start),
    "fail": (2, fail),
    "step": (4, step),
    "answer": (6, answer),
    "record": (6, record),
    "lose_reply": (2, lose_reply),
    "wait": (4, wait),
    "serve_for_long": (1, serve_for_long),
    "lapse": (1, lapse),
    "crash": (2, crash),
    "freeze": (3, freeze),
    "thaw": (4, thaw),
    "zombie": (4, zombie),
    "overlap": (6, overlap),
    "lock": (2, lock),
    "unlock": (2, unlock),
    "delete": (1, delete),
    "command": (3, command),
    "recall": (1, recall),
    "change_filter": (2, change_filter),
    "refilter": (2, refilter),
}
"""By name: how often among all, and what happens."""
