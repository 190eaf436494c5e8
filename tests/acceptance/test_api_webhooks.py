"""Several endpoints of a merchant through the Partner API, with a real daemon and receiver."""

from uuid import uuid4

from tests.acceptance.api_merchant import Merchant, Reply, start_api
from tests.acceptance.installation import OLDER, SEALS, Installation
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.domain.signing import Secret

REFUNDS = "m1-refunds"
"""How the receiver calls the second endpoint."""


async def add(installation: Installation, merchant: Merchant, label: str, **more: object) -> Reply:
    """Add an endpoint at the receiver, by the same key until nothing is sent to the only one."""
    key = str(uuid4())
    while True:
        body = {"url": installation.receiver.url(label), **more}
        reply = await merchant.ask("POST", "/v1/webhooks", body, key=key)
        if reply.status == 409 and reply.json["error"]["cause"] == codes.STILL_SENDING:
            assert reply.headers["Retry-After"] == "1"
            continue
        if reply.status == 201:
            installation.receiver.secrets[label] = Secret(reply.data["secret"])
            again = await merchant.ask("POST", "/v1/webhooks", body, key=key)
            assert again.data == {**reply.data, "secret": None}
        return reply


async def test_a_merchant_has_refunds_alone_sent_to_a_second_endpoint(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await installation.until_true(SEALS)
        first = await add(installation, merchant, "m1")
        assert (first.data["number"], first.data["name"], first.data["types"]) == (1, None, None)
        before = await installation.emit("m1", '{"id":"ch_1"}', "charge.reversed")
        await installation.settled(before.id, "delivered", 1)
        second = await add(installation, merchant, REFUNDS, name="refunds", types=["charge.reversed"])
        assert (second.data["number"], second.data["name"]) == (2, "refunds")
        refund = await installation.emit("m1", '{"id":"ch_1"}', "charge.reversed")
        other = await installation.emit("m1", '{"id":"ch_2"}', "charge.succeeded")
        arrivals = await installation.arrived(4)
        assert [(each.merchant_id, each.event_id) for each in arrivals if each.merchant_id == REFUNDS] == [
            (REFUNDS, str(refund.id))
        ]
        assert sorted(each.event_id for each in arrivals if each.merchant_id == "m1") == sorted(
            map(str, (before.id, refund.id, other.id))
        )
        mine = await merchant.ask("GET", f"/v1/deliveries?endpoint={second.data['id']}")
        [delivery] = mine.data
        assert (delivery["eventId"], delivery["endpointId"]) == (str(refund.id), second.data["id"])
        of_event = await merchant.ask("GET", f"/v1/deliveries?event={refund.id}")
        assert {each["endpointId"] for each in of_event.data} == {first.data["id"], second.data["id"]}
        for each in of_event.data:
            shown = await merchant.ask("GET", f"/v1/deliveries/{each['deliveryId']}")
            assert shown.data["payload"]["id"] == str(refund.id)
        events = await merchant.ask("GET", "/v1/events")
        assert [each["id"] for each in events.data] == [str(each.id) for each in (before, refund, other)]


async def test_each_endpoint_is_changed_tested_and_paused_by_its_id(installation: Installation) -> None:
    daemon = await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await installation.until_true(SEALS)
        assert (await merchant.ask("GET", "/v1/webhooks")).data == []
        await add(installation, merchant, "m1")
        second = (await add(installation, merchant, REFUNDS)).data
        path = f"/v1/webhooks/{second['id']}"
        put = await merchant.ask(
            "PUT", path, {"name": "refunds", "order": "charge", "types": ["charge.reversed"]}
        )
        assert (put.status, put.data["name"], put.data["atOnce"]) == (200, "refunds", 8)
        tested = await merchant.carried_out(f"{path}/test")
        assert tested.data["outcome"] == "delivered"
        [arrival] = await installation.arrived(1)
        assert arrival.merchant_id == REFUNDS
        assert (await merchant.carried_out(f"{path}/pause")).data == {"paused": True}
        held = await merchant.ask("POST", f"{path}/secret", {"hold": True})
        assert held.data["secret"].startswith("whsec_")
        listed = (await merchant.ask("GET", "/v1/webhooks")).data
        assert [(each["number"], each["paused"]) for each in listed] == [(1, False), (2, True)]
        assert listed[1] == (await merchant.ask("GET", path)).data
        assert listed[0] == (await merchant.ask("GET", "/v1/webhook")).data
        assert (await merchant.carried_out(f"{path}/resume")).data == {"paused": False}
        unnamed = await merchant.ask("PUT", path, {"name": None})
        assert (unnamed.data["name"], unnamed.data["types"]) == (None, ["charge.reversed"])
        for name in ("", " ", "a\x1fb", "x" * 101):
            assert (await merchant.ask("PUT", path, {"name": name})).code == codes.VALIDATION_FAILED
        assert (await merchant.ask("DELETE", "/v1/webhook")).data["removed"]
        for gone in ("/v1/webhook", f"/v1/webhooks/{listed[0]['id']}"):
            assert (await merchant.ask("GET", gone)).code == codes.NOT_CONFIGURED
            assert (await merchant.carried_out(f"{gone}/pause")).code == codes.NOT_CONFIGURED
        url = {"url": installation.receiver.url("m1")}
        assert (
            await merchant.ask("PUT", f"/v1/webhooks/{listed[0]['id']}", url)
        ).code == codes.NOT_CONFIGURED
        assert (
            await merchant.ask("GET", f"/v1/deliveries?endpoint={listed[0]['id']}")
        ).code == codes.NOT_CONFIGURED
        assert (await merchant.ask("PUT", "/v1/webhook", url)).data["number"] == 1
        assert (await merchant.ask("DELETE", path)).data == {"removed": True, "failed": 0}
    async with api.merchant("m2") as other:
        await add(installation, other, "m2")
        assert (await other.ask("GET", f"/v1/webhooks/{listed[0]['id']}")).code == codes.NOT_CONFIGURED
        daemon.terminate()
        await daemon.ended()
        await installation.owner.execute(OLDER)
        assert (await add(installation, other, "other")).code == codes.UNAVAILABLE


async def test_a_17th_endpoint_is_refused(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await installation.until_true(SEALS)
        numbers = [(await add(installation, merchant, f"m1-{n}")).data["number"] for n in range(16)]
        assert numbers == [*range(1, 17)]
        refused = await add(installation, merchant, "m1-17")
        assert (refused.code, refused.json["error"]["cause"]) == (
            codes.STATE_FORBIDS,
            codes.TOO_MANY_ENDPOINTS,
        )
