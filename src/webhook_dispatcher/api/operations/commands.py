"""`GET /v1/commands/{id}`, and what becomes of the commands that other operations give.

Daemons carry them out. An operation waits for that, two seconds at most; then the client asks by the
command's id.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import structlog
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from pydantic.alias_generators import to_camel

from webhook_dispatcher.api.calls import ApiError, CommandAccepted, Request, Response
from webhook_dispatcher.api.catalogue import (
    DELIVERY_NOT_FOUND,
    INTERNAL,
    INVALID_URL,
    NOT_CONFIGURED,
    NOT_FOUND,
    NOT_HELD,
    STATE_FORBIDS,
    TOO_MANY_COMMANDS,
)
from webhook_dispatcher.api.operations.models import Instant, told_reason, write
from webhook_dispatcher.api.validation import Model
from webhook_dispatcher.domain.command import CommandName, CommandStatus
from webhook_dispatcher.domain.errors import NotHeld
from webhook_dispatcher.storage.api import held_rotation
from webhook_dispatcher.storage.api.deliveries import Deliveries
from webhook_dispatcher.storage.api.endpoints import CommandOutcome, Endpoints, NewCommand, OwnCommand

PATIENCE_SECONDS = 2.0
FIRST_LOOK_SECONDS = 0.03
MAX_LOOK_SECONDS = 0.3
BLOCK_BYTES = 16
MAX_ID = 2**63 - 1
TOO_MANY = "too many commands of this merchant have not ended yet"
STILL_SENDING = "the pause is not in force yet, or something is still being sent: ask again"
COMMAND_CODES = (INVALID_URL, NOT_CONFIGURED, DELIVERY_NOT_FOUND, STATE_FORBIDS)
"""What a rejected command may tell a merchant; a malformed one can only be our own fault."""
T = TypeVar("T")
_SHOWN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OPEN = (CommandStatus.PENDING, CommandStatus.RUNNING)

_log = structlog.get_logger()


class CommandAnswer(Model):
    """A command, and how far it has come. result: while it is running, its progress."""

    command_id: str
    command: str
    status: CommandStatus
    created_at: Instant
    handled_at: Instant | None
    result: dict[str, Any] | None
    error_code: int | None


class Accepted(Model):
    """A command that is not waited for any longer: ask `GET /v1/commands/{id}`."""

    command_id: str
    status: CommandStatus


class CommandIds:
    """Commands' ids as merchants see them. key: the one that cursors are made with, too.

    Their numbers count everybody's commands, and would tell each merchant how many there are. One number is
    one block of AES: always the same text, which says nothing to who has no key.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(AES256(hashlib.sha256(b"commands" + key).digest()), ECB())

    def shown(self, number: int) -> str:
        """Return a command's id as a UUID's text."""
        return str(UUID(bytes=self._cipher.encryptor().update(number.to_bytes(BLOCK_BYTES))))

    def number(self, shown: str) -> int | None:
        """Return the number that an id stands for; None where it is none of ours."""
        if not _SHOWN_ID.fullmatch(shown):
            return None
        number = int.from_bytes(self._cipher.decryptor().update(UUID(shown).bytes))
        return number if number <= MAX_ID else None


async def _ids(request: Request) -> CommandIds:
    return CommandIds(await Deliveries(request.database).cursor_key())


async def show(request: Request) -> Response:
    """Show one of the merchant's own commands; any other is not found."""
    ids = await _ids(request)
    command_id = ids.number(request.parameters["id"])
    command = None if command_id is None else await _read(request, command_id)
    if command is None:
        raise ApiError(NOT_FOUND)
    result = (
        None if command.result is None else {to_camel(name): each for name, each in command.result.items()}
    )
    shown = ids.shown(command.id)
    return Response(write(CommandAnswer, command, command_id=shown, result=result, error_code=_told(command)))


async def answer_of(request: Request, outcome: Response | CommandAccepted) -> Response:
    """Wait for the outcome of a command, if one was given, and answer with it; else return the answer."""
    if isinstance(outcome, Response):
        return outcome
    command = await _ended(request, outcome.command_id)
    if command.status in _OPEN or request.operation.outcome is None:
        shown = (await _ids(request)).shown(command.id)
        answer = Response(write(Accepted, command_id=shown, status=command.status), 202)
    else:
        answer = _rendered(request, command, outcome)
    return answer._replace(headers={**answer.headers, **outcome.headers}, language=outcome.language)


def _rendered(request: Request, command: OwnCommand, given: CommandAccepted) -> Response:
    """Say what became of a command, as its operation shows it."""
    if command.status is CommandStatus.WITHDRAWN:
        raise ApiError(STATE_FORBIDS, headers=given.headers, language=given.language)
    if command.status is CommandStatus.REJECTED:
        code = _told(command)
        if code is None:
            _log.error(
                "command.rejected", id=command.id, code=command.error_code, error=command.error_message
            )
        raise ApiError(code or INTERNAL, headers=given.headers, language=given.language)
    outcome = request.operation.outcome
    assert outcome is not None
    return Response(outcome(command))


async def _ended(request: Request, command_id: int) -> OwnCommand:
    """Return the command when it has ended, or as it is when that takes too long."""
    loop, pause = asyncio.get_running_loop(), FIRST_LOOK_SECONDS
    patience = PATIENCE_SECONDS if request.operation.outcome is not None else 0.0
    deadline = loop.time() + patience
    while True:
        command = await _read(request, command_id)
        assert command is not None, "commands are kept for a year"
        left = deadline - loop.time()
        if command.status not in _OPEN or left <= 0:
            return command
        # The command is looked up again and again: a notification would not get through a pooler.
        await asyncio.sleep(min(pause, left))  # noqa: TID251
        pause = min(pause * 1.5, MAX_LOOK_SECONDS)


async def when_held(request: Request, carry_out: Callable[[], Awaitable[T]]) -> T:
    """Carry a request out that may have to wait for a pause, which is given in a transaction of its own.

    ApiError where events are not kept back in time: nothing but the pause was done; the client asks again.
    """

    async def pause() -> None:
        unless_refused(await Endpoints(request.database).ask(request.token, CommandName.PAUSE))

    try:
        return await held_rotation.when_held(carry_out, pause)
    except NotHeld:
        raise ApiError(
            STATE_FORBIDS, headers={"Retry-After": "1"}, extra={"cause": NOT_HELD, "reason": STILL_SENDING}
        ) from None


async def _read(request: Request, command_id: int) -> OwnCommand | None:
    command = await Endpoints(request.database).command(request.token, command_id)
    if command is None or command.result is None or "reason" not in command.result:
        return command
    reason = told_reason(command.result.get("outcome"), command.result["reason"])
    return replace(command, result={**command.result, "reason": reason})


def _told(command: OwnCommand) -> int | None:
    """Return the code of a rejected command, if a merchant may be told it; any other is a fault of ours."""
    return command.error_code if command.error_code in COMMAND_CODES else None


def unless_refused(command: NewCommand) -> CommandAccepted:
    """Return the command that was given, or refuse the request where the database did not take it."""
    match command.result:
        case CommandOutcome.GIVEN:
            assert command.id is not None
            return CommandAccepted(command.id)
        case CommandOutcome.NOT_FOUND:
            raise ApiError(DELIVERY_NOT_FOUND)
        case CommandOutcome.TOO_MANY:
            raise ApiError(
                STATE_FORBIDS,
                headers={"Retry-After": "1"},
                extra={"cause": TOO_MANY_COMMANDS, "reason": TOO_MANY},
            )
