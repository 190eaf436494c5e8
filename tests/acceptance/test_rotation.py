"""A secret that is replaced while events wait: none is refused for it, and order is kept. Source: contract 3, 4, 7, 8."""

from tests.acceptance.installation import Installation


async def test_a_merchant_that_is_paused_by_itself_can_be_tested(installation: Installation) -> None:
    await installation.configure("m1")
    await installation.start()
    await installation.do("pause", "m1")
    waits = await installation.emit("m1")
    tested = await installation.do("test_event", "m1")
    assert (tested["status"], tested["result"]["outcome"]) == ("done", "delivered")
    await installation.do("pause")
    refused = await installation.do("test_event", "m1")
    assert (refused["error_code"], refused["error_message"]) == (-14004, "everything is paused: resume it first")
    assert [arrival.type for arrival in installation.receiver.arrivals] == ["webhook.test"]
    assert (await installation.delivery(waits.id))["attempts"] == 0
