"""Merchants who configure themselves, with secrets that only a dispatcher's keys open. Source: contract 3."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.acceptance.installation import Installation, make_key
from tests.acceptance.processes import Daemon
from tests.acceptance.signature_verifiers import python_snippet, stripe_of_pypi
from tests.integration.api_bearers import bearer
from tests.waiting import until_found
from webhook_dispatcher.domain.command import CommandName
from webhook_dispatcher.domain.signing import SECRET_RANDOM_BYTES, SealedSecret, Secret
from webhook_dispatcher.local.arrivals import Arrival, Signature
from webhook_dispatcher.storage.api.endpoints import Endpoints, PutOutcome, Removal, Rotation

HOUR = timedelta(hours=1)


@asynccontextmanager
async def merchant_side(installation: Installation) -> AsyncIterator[tuple[Endpoints, bytes]]:
    """Connect as webhook_api, with a token of m1's, once a daemon has published its public half."""
    connection = await installation.database.connect("webhook_api")
    endpoints = Endpoints(connection)
    await until_found(endpoints.sealing_key)
    yield endpoints, await bearer(installation.owner, "m1")
    await connection.close()


async def stopped(daemon: Daemon) -> None:
    """End a daemon in order: it holds no lanes afterwards."""
    daemon.terminate()
    assert await daemon.ended() == 0


async def seal(endpoints: Endpoints, secret: Secret) -> SealedSecret:
    """Seal as a process without keys does."""
    key = await endpoints.sealing_key()
    assert key is not None
    return key.seal("m1", secret)


def made() -> Secret:
    return Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES))


def is_accepted(arrival: Arrival, secret: Secret) -> bool:
    """Ask Stripe's own package, and the snippet that merchants are given."""
    header, text = arrival.headers["service-signature"], secret.revealed.decode()
    answers = {verify(arrival.body, header, text) for verify in (stripe_of_pypi, python_snippet)}
    assert len(answers) == 1
    return answers == {200}


async def test_a_merchant_that_configures_itself_gets_signed_webhooks_through_every_change(
    installation: Installation,
) -> None:
    daemon = await installation.start()
    async with merchant_side(installation) as (endpoints, token):
        first, second = made(), made()
        installation.receiver.secrets["m1"] = first
        url = installation.receiver.url("m1")
        assert await endpoints.put(token, url, await seal(endpoints, first)) is PutOutcome.CREATED
        await installation.emit("m1")
        [arrival] = await installation.arrived(1)
        assert is_accepted(arrival, first)
        assert not is_accepted(arrival, second)

        # Both sign for as long as they overlap.
        rotated = await endpoints.rotate(token, await seal(endpoints, second), HOUR)
        assert rotated.result is Rotation.ROTATED
        await installation.emit("m1")
        arrival = (await installation.arrived(2))[-1]
        assert arrival.headers["service-signature"].count("v1=") == 2
        assert is_accepted(arrival, first)
        assert is_accepted(arrival, second)

        # An operator moves all to a new key, under which they are in its own form.
        old_key, new_key = installation.key, make_key("k2")
        both = f"{new_key},{old_key}"
        checked = installation.command("check", SECRET_KEYS=both)
        assert "needed until `webhook-dispatcher endpoint rekey`: k1" in checked.stdout
        await stopped(daemon)
        rekeyed = json.loads(installation.command("endpoint", "rekey", "--json", SECRET_KEYS=both).stdout)
        assert (rekeyed["key_id"], rekeyed["reencrypted"], rekeyed["unopened"]) == ("k2", 2, [])
        checked = installation.command("check", SECRET_KEYS=both)
        assert "no longer needed, remove from WEBHOOK_SECRET_KEYS: k1" in checked.stdout
        daemon = await installation.start(SECRET_KEYS=new_key)
        await installation.emit("m1")
        arrival = (await installation.arrived(3))[-1]
        assert is_accepted(arrival, first)
        assert is_accepted(arrival, second)

        # What is sealed now is for the new key, and the daemon with it alone opens it.
        third = made()
        installation.receiver.secrets["m1"] = third
        sealed = await seal(endpoints, third)
        assert sealed.key_id == "hpke1:k2"
        assert (await endpoints.rotate(token, sealed, None)).result is Rotation.ROTATED
        given = await endpoints.ask(token, CommandName.TEST_EVENT)
        assert given.id is not None
        assert (await installation.handled(given.id))["status"] == "done"
        assert is_accepted((await installation.arrived(4))[-1], third)
        shown = await endpoints.command(token, given.id)
        assert shown is not None
        assert (shown.status, (shown.result or {})["outcome"]) == ("done", "delivered")
        assert await endpoints.remove(token) is Removal.REMOVED
    assert Signature.WRONG not in {arrival.signature for arrival in installation.receiver.arrivals}
    assert await daemon.asked("/readyz") == (200, "ready\n")
