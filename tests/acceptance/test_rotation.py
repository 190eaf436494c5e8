"""A secret is replaced while events wait: none is refused for it, and order is kept. Contract 3, 7."""

import asyncio
from datetime import timedelta
from functools import partial

from tests.acceptance.api_merchant import start_api
from tests.acceptance.installation import Installation, Sent
from tests.waiting import until_found
from webhook_dispatcher.api.catalogue import NOT_HELD
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.arrivals import Signature, out_of_order
from webhook_dispatcher.local.behaviour import Behaviour

BACKLOG = 529
HANGS, STEADY = Behaviour(hangs=True), Behaviour(delay=timedelta(seconds=0.05))
CAN_SEAL = "SELECT count(*) FROM webhook.current_sealing_key"


async def send_backlog(installation: Installation) -> list[Sent]:
    """Have two daemons in the midst of a backlog, some of whose events wait for a retry."""
    await installation.configure("m1")
    installation.receiver.behave("m1", Behaviour(500), Behaviour(500), STEADY)
    sent = await installation.emit_each(["m1"], BACKLOG)
    await installation.start(RETRY_SCHEDULE="PT0.2S")
    await installation.start(RETRY_SCHEDULE="PT0.2S")
    await installation.arrived(5, "m1")
    return sent


async def hand_over_and_resume(installation: Installation, secret: str, sent: list[Sent]) -> None:
    """Give the receiver the secret, test and resume; nothing was refused, and all arrives in order."""
    assert len(installation.receiver.of("m1")) < BACKLOG
    installation.receiver.secrets["m1"] = Secret(secret)
    installation.receiver.behave("m1", Behaviour())
    tested = await asyncio.to_thread(installation.command, "test-event", "m1")
    assert tested.returncode == 0, tested.stderr
    resumed = await asyncio.to_thread(installation.command, "resume", "m1")
    assert resumed.returncode == 0, resumed.stderr
    await installation.all_delivered(BACKLOG + 1)
    arrivals = installation.receiver.of("m1")
    assert {arrival.signature for arrival in arrivals} == {Signature.RIGHT}
    events = [arrival for arrival in arrivals if arrival.type != "webhook.test"]
    assert out_of_order(events, {str(event.id): event.seq for event in sent}) == []


async def test_no_event_of_a_backlog_is_refused_when_a_secret_is_replaced_and_held(
    installation: Installation,
) -> None:
    sent = await send_backlog(installation)
    rotated = await asyncio.to_thread(installation.command, "endpoint", "rotate-secret", "m1", "--hold")
    assert (rotated.returncode, "nothing is sent until `resume m1`" in rotated.stdout) == (0, True)
    # A daemon that joins meanwhile reads the pause; a second rotation follows at once.
    await installation.start()
    again = await asyncio.to_thread(installation.command, "endpoint", "rotate-secret", "m1", "--hold")
    await hand_over_and_resume(installation, again.stdout.split()[-1], sent)


async def test_nor_by_the_partner_api_whose_repeats_pause_nothing_again(installation: Installation) -> None:
    sent = await send_backlog(installation)
    await until_found(partial(installation.owner.fetchval, CAN_SEAL))
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        rotate = partial(merchant.ask, "POST", "/v1/webhook/secret", {"hold": True}, key="leaked")
        while (rotated := await rotate()).status == 409:
            assert (rotated.code, rotated.headers["Retry-After"]) == (-14004, "1")
            assert rotated.json["error"]["cause"] == NOT_HELD
        assert rotated.data["waiting"] == await installation.count("state IN ('pending', 'pending_retry')")
        await hand_over_and_resume(installation, rotated.data["secret"], sent)
        repeated = (await rotate()).data
        assert repeated == {**rotated.data, "secret": None}
        assert not (await merchant.ask("GET", "/v1/webhook")).data["paused"]


async def test_a_merchant_that_is_paused_by_itself_can_be_tested(installation: Installation) -> None:
    await installation.configure("m1")
    await installation.start()
    await installation.do("pause", "m1")
    waits = await installation.emit("m1")
    tested = await installation.do("test_event", "m1")
    assert (tested["status"], tested["result"]["outcome"]) == ("done", "delivered")
    await installation.do("pause")
    refused = await installation.do("test_event", "m1")
    said = "everything is paused: resume it first"
    assert (refused["error_code"], refused["error_message"]) == (-14004, said)
    assert [arrival.type for arrival in installation.receiver.arrivals] == ["webhook.test"]
    assert (await installation.delivery(waits.id))["attempts"] == 0
