"""Several endpoints of a merchant, judged by what each received. Source: contract 2.10."""

import asyncio
import secrets

from tests.acceptance.installation import PATIENT, Installation, Sent
from tests.waiting import until, until_found
from webhook_dispatcher.domain.signing import SECRET_RANDOM_BYTES, Keyring, Secret
from webhook_dispatcher.local.arrivals import Arrival, Signature, out_of_order, overlapping
from webhook_dispatcher.local.behaviour import Behaviour

QUICK = {"LEASE": "PT3S", "ATTEMPT_TIMEOUT": "PT2S"}
ADD = "SELECT result FROM webhook.add_endpoint($1, $2, $3, $4, NULL, $5, NULL)"
REMOVE = "DELETE FROM webhook.endpoint WHERE merchant_id = $1 || chr(31) || $2"
SETTLED = "SELECT NOT EXISTS (SELECT FROM webhook.outbox)"
IS_DIRECT = "SELECT routed_at IS NULL FROM webhook.lane WHERE merchant_id = 'm'"
DELIVERED = "SELECT count(*) = $1 FROM webhook.delivery_log WHERE state = 'delivered'"


async def add(installation: Installation, place: str, *types: str) -> None:
    """Add an endpoint of merchant m, at this place of the receiver, once nobody holds its lane."""
    receiver = installation.receiver
    secret = Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES))
    sealed = Keyring.parse(installation.key).seal("m", secret)
    receiver.secrets[place] = secret

    async def is_created() -> bool:
        given = ("m", receiver.url(place), sealed.sealed, sealed.key_id, types or None)
        result: str = await installation.owner.fetchval(ADD, *given)
        assert result in ("created", "sending")
        return result == "created"

    await until_found(is_created)


def ids(arrivals: list[Arrival]) -> list[str]:
    """Return what arrived, each event once."""
    return list(dict.fromkeys(arrival.event_id for arrival in arrivals))


async def test_an_endpoint_that_hangs_delays_no_other(installation: Installation) -> None:
    daemon = await installation.start(**PATIENT)
    await installation.configure("m", "other")
    receiver = installation.receiver
    before = [await installation.emit("m") for _ in range(3)]
    await installation.until_true(DELIVERED, len(before))
    await add(installation, "second")
    receiver.behave("second", Behaviour(hangs=True), Behaviour())
    sent = [await installation.emit("m", f'{{"id": "ch_{number}"}}') for number in range(20)]
    await installation.emit("other")
    await installation.until_true(DELIVERED, len(before) + len(sent) + 1)
    await until(lambda: receiver.of("second"))
    [hanging] = receiver.of("second")
    assert (hanging.event_id, hanging.ended_at) == (str(sent[0].id), None)
    receiver.answer_hanging("second")
    await installation.until_true(DELIVERED, len(before) + 2 * len(sent) + 1)
    assert ids(receiver.of("m")) == [str(each.id) for each in before + sent]
    assert ids(receiver.of("second")) == [str(each.id) for each in sent]
    bodies = [{arrival.event_id: arrival.body for arrival in receiver.of(place)} for place in ("m", "second")]
    assert {event_id: bodies[0][event_id] for event_id in bodies[1]} == bodies[1]
    assert {arrival.signature for arrival in receiver.arrivals} == {Signature.RIGHT}
    _, text = await daemon.asked("/metrics")
    assert f"webhook_routed_events_total {len(sent)}.0" in text


async def test_each_gets_what_it_was_there_for_in_order_though_daemons_are_killed(
    installation: Installation,
) -> None:
    await installation.configure("m")
    daemons = [await installation.start(**QUICK) for _ in range(2)]
    receiver = installation.receiver
    receiver.behave("second", Behaviour(hangs=True), Behaviour())
    sent: list[Sent] = []
    due: dict[str, list[str]] = {"m": [], "second": [], "third": []}

    async def emit(count: int) -> None:
        for _ in range(count):
            kind = "charge.failed" if len(sent) % 4 == 0 else "charge.created"
            each = await installation.emit("m", event_type=kind)
            sent.append(each)
            for place in there:
                if place != "third" or kind == "charge.failed":
                    due[place].append(str(each.id))

    there = ["m"]
    await emit(5)
    await add(installation, "second")
    there.append("second")
    await emit(40)
    await until(lambda: len(receiver.of("m")) > 10)
    daemons.pop(0).kill()
    await add(installation, "third", "charge.failed")
    there.append("third")
    daemons.append(await installation.start(**QUICK))
    await emit(40)
    await until(lambda: len(receiver.of("second")) > 10)
    daemons.pop(0).kill()
    await installation.start(**QUICK)
    owed = "SELECT NOT EXISTS (SELECT FROM webhook.outbox WHERE due_at IS NULL)"
    await installation.until_true(owed)
    seq_of = {str(each.id): each.seq for each in sent}
    for place, wanted in due.items():
        arrivals = receiver.of(place)
        assert out_of_order(arrivals, seq_of) == []
        assert overlapping(arrivals) == []
        assert ids(arrivals) == wanted
    # Two are removed, and the merchant's lane is its own again.
    for number in (2, 3):
        await installation.owner.execute(REMOVE, "m", str(number))
    await installation.until_true(IS_DIRECT)
    last = await installation.emit("m")
    await installation.settled(last.id, "delivered", 1)
    checked = await asyncio.to_thread(installation.command, "check")
    assert checked.returncode == 0
