"""Control commands at work, as an operator would insert them."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

from webhook_dispatcher.cli.demo import cast
from webhook_dispatcher.cli.demo.partner import Partner
from webhook_dispatcher.cli.demo.stage import Stage
from webhook_dispatcher.domain.command import CommandName, CommandStatus, CommandView
from webhook_dispatcher.domain.delivery import DeliveryView
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.producer import Written, write_one
from webhook_dispatcher.storage.administration import ControlRequest, DeliveryFilter

PATIENCE = timedelta(seconds=20)
UNTIL_FIRST_FAILURE = timedelta(seconds=120)


class Scenes:
    """Plays the scenes; UserError when one did not end as it should.

    cancelled: the events that were cancelled and so must never arrive.
    """

    def __init__(self, stage: Stage, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._say = say
        self._random = Random(7)
        self.cancelled: set[str] = set()

    async def play(self) -> None:
        """Play all of them, one after the other."""
        await self._test_event()
        await self._pause_cancel_resume()
        await self._retry()
        await self._retry_failed()
        await self._set_url()

    async def _test_event(self) -> None:
        done = await self._ask(CommandName.TEST_EVENT, merchant_id=cast.HEALTHY.id)
        self._expect(done.result, "outcome", "delivered")

    async def _pause_cancel_resume(self) -> None:
        merchant_id = cast.PAUSED.id
        await self._ask(CommandName.PAUSE, merchant_id=merchant_id)
        self._stage.characters[merchant_id] = "paused"
        kept, unwanted = await self._write(merchant_id), await self._write(merchant_id)
        self._say(f"  {merchant_id} is paused: two more events of it wait")
        await self._ask(CommandName.CANCEL, event_id=unwanted.id)
        self.cancelled.add(str(unwanted.id))
        await self._delivery_becomes(unwanted.id, State.FAILED)
        if (waiting := await self._delivery(kept.id)).state != State.PENDING:
            raise UserError(f"an event of a paused merchant is {waiting.state}")
        await self._ask(CommandName.RESUME, merchant_id=merchant_id)
        self._stage.characters[merchant_id] = cast.PAUSED.character
        await self._delivery_becomes(kept.id, State.DELIVERED)

    async def _retry(self) -> None:
        failed = await self._first_failed(cast.FAILING.id)
        await self._ask(CommandName.RETRY, event_id=failed.event_id)

        async def is_repeated() -> bool:
            now = await self._delivery(failed.event_id)
            return now.state == State.FAILED and now.attempts == failed.attempts + 1

        await self._stage.until(is_repeated, "one more attempt, and failed again", PATIENCE)
        self._say(f"  one more attempt, number {failed.attempts + 1}, answered 500: failed again")

    async def _retry_failed(self) -> None:
        merchant_id = cast.FAILING.id
        self._stage.receiver.behave(merchant_id, Behaviour(200))
        self._stage.characters[merchant_id] = "mended: 200"
        self._say(f"  {merchant_id} has mended its receiver, and asks the Partner API")
        await self._at_the_api(merchant_id)
        await self._retry_all_failed(merchant_id)
        self._stage.receiver.behave(merchant_id, *cast.FAILING.behaviours)
        self._stage.characters[merchant_id] = "500 again"

    async def _at_the_api(self, merchant_id: str) -> None:
        """Let a merchant see what failed, and have one event of it sent again, by itself."""
        failed = await self._deliveries(merchant_id, State.FAILED)
        async with Partner.of(self._stage, self._say, merchant_id) as partner:
            await partner.list_failed({str(delivery.event_id) for delivery in failed})
            await partner.read_charge(failed[0].event_id)
            await partner.retry(failed[0].event_id)
            await self._delivery_becomes(failed[0].event_id, State.DELIVERED)
            self._say(f"  {merchant_id} had a failed delivery sent again by itself: delivered")

    async def _set_url(self) -> None:
        merchant_id = cast.HANGING.id
        await self._first_failed(merchant_id)
        url = self._stage.receiver.url(cast.MOVED_TO)
        await self._ask(CommandName.SET_URL, merchant_id=merchant_id, url=url)
        self._stage.characters[merchant_id] = "moved: 200"
        await self._retry_all_failed(merchant_id)

    async def _retry_all_failed(self, merchant_id: str) -> None:
        failed = await self._deliveries(merchant_id, State.FAILED)
        done = await self._ask(CommandName.RETRY_FAILED, merchant_id=merchant_id)
        retried = (done.result or {}).get("retried", 0)
        if retried < len(failed):
            raise UserError(
                f"retry_failed retried {retried} of {len(failed)} failed deliveries of {merchant_id}"
            )
        for delivery in failed:
            await self._delivery_becomes(delivery.event_id, State.DELIVERED)
        self._say(f"  {len(failed)} failed deliveries of {merchant_id} are delivered now")

    async def _write(self, merchant_id: str) -> Written:
        written = await write_one(self._stage.producer_dsn, merchant_id, self._random)
        self._stage.note(written)
        return written

    async def _ask(
        self, command: CommandName, merchant_id: str | None = None, event_id: UUID | None = None, **args: Any
    ) -> CommandView:
        """Insert a command and wait until it has been carried out."""
        number = await self._stage.admin.ask(ControlRequest(command, "demo", merchant_id, event_id, args))
        views: list[CommandView] = []

        async def is_handled() -> bool:
            views.append(await self._stage.admin.find_command(number))
            return views[-1].is_final

        about = str(merchant_id or event_id)
        await self._stage.until(is_handled, f"{command} {about} carried out", PATIENCE)
        done = views[-1]
        self._say(f"{command} {about}: {done.status} {json.dumps(done.result or {})}")
        if done.status != CommandStatus.DONE:
            raise UserError(f"{command} {about} was rejected: {done.error_code} {done.error_message}")
        return done

    async def _deliveries(self, merchant_id: str, state: State) -> list[DeliveryView]:
        return await self._stage.admin.list_deliveries(
            DeliveryFilter(merchant_id=merchant_id, state=state.value, limit=10_000)
        )

    async def _first_failed(self, merchant_id: str) -> DeliveryView:
        """Return the earliest failed delivery of a merchant, as soon as there is one."""

        async def has_failed() -> bool:
            return bool(await self._deliveries(merchant_id, State.FAILED))

        await self._stage.until(has_failed, f"a failed delivery of {merchant_id}", UNTIL_FIRST_FAILURE)
        return (await self._deliveries(merchant_id, State.FAILED))[-1]

    async def _delivery(self, event_id: UUID) -> DeliveryView:
        found = await self._stage.admin.list_deliveries(DeliveryFilter(event_id=event_id))
        if len(found) != 1:
            raise UserError(f"event {event_id} has {len(found)} deliveries")
        return found[0]

    async def _delivery_becomes(self, event_id: UUID, state: State) -> None:
        async def has_become() -> bool:
            return (await self._delivery(event_id)).state == state

        await self._stage.until(has_become, f"event {event_id} is {state}", PATIENCE)

    def _expect(self, result: Mapping[str, Any] | None, name: str, value: object) -> None:
        if (result or {}).get(name) != value:
            raise UserError(f"expected {name} to be {value!r}: {result}")
