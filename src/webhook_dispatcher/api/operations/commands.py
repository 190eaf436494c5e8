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

from webhook_dispatcher.api.calls import ApiError, Caller, CommandAccepted, Head, Request, Response
from webhook_dispatcher.api.catalogue import (
    DELIVERY_NOT_FOUND,
    INTERNAL,
    INVALID_URL,
    NOT_CONFIGURED,
    NOT_FOUND,
    NOT_HELD,
    STATE_FORBIDS,
    STILL_SENDING,
    TOO_MANY_COMMANDS,
)
from webhook_dispatcher.api.operations.models import Instant, public_reason, uuid_of, write
from webhook_dispatcher.api.validation import Model, Nothing
from webhook_dispatcher.domain.command import CommandName, CommandStatus, CommandView
from webhook_dispatcher.domain.errors import NotHeld, StillSending
from webhook_dispatcher.storage.api import held_rotation
from webhook_dispatcher.storage.api.deliveries import Deliveries
from webhook_dispatcher.storage.api.endpoints import CommandOutcome, Endpoints, NewCommand

PATIENCE_SECONDS = 2.0
FIRST_LOOK_SECONDS = 0.03
MAX_LOOK_SECONDS = 0.3
BLOCK_BYTES = 16
MAX_ID = 2**63 - 1
TOO_MANY = "too many commands of this merchant have not ended yet"
HELD_LATER = "the pause is not in force yet, or something is still being sent: ask again"
ADDED_LATER = "something is still being sent to your only endpoint: ask again"
COMMAND_CODES = (INVALID_URL, NOT_CONFIGURED, DELIVERY_NOT_FOUND, STATE_FORBIDS)
"""What a rejected command may tell a merchant; a malformed one can only be our own fault."""
T = TypeVar("T")
_PUBLIC_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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

    def encode(self, number: int) -> str:
        """Return a command's id as a UUID's text."""
        return str(UUID(bytes=self._cipher.encryptor().update(number.to_bytes(BLOCK_BYTES))))

    def decode(self, command_id: str) -> int | None:
        """Return the number that an id stands for; None where it is none of ours."""
        if not _PUBLIC_ID.fullmatch(command_id):
            return None
        number = int.from_bytes(self._cipher.decryptor().update(UUID(command_id).bytes))
        return number if number <= MAX_ID else None


async def _ids(caller: Caller) -> CommandIds:
    return CommandIds(await Deliveries(caller.database).cursor_key())


async def show(request: Request, _: Nothing) -> Response:
    """Show one of the merchant's own commands; any other is not found."""
    ids = await _ids(request.caller)
    number = ids.decode(request.head.parameters["id"])
    command = None if number is None else await _read(request.caller, number)
    if command is None:
        raise ApiError(NOT_FOUND)
    result = (
        None if command.result is None else {to_camel(name): each for name, each in command.result.items()}
    )
    command_id, code = ids.encode(command.id), _public_code(command)
    return Response(write(CommandAnswer, command, command_id=command_id, result=result, error_code=code))


async def response_of(
    caller: Caller,
    outcome: Response | CommandAccepted,
    write_outcome: Callable[[CommandView], bytes] | None = None,
) -> Response:
    """Return the response, or where a command was given, wait for its outcome and respond with that.

    write_outcome: the operation's; without it, the command is not waited for.
    """
    if isinstance(outcome, Response):
        return outcome
    patience = 0.0 if write_outcome is None else PATIENCE_SECONDS
    command = await _ended(caller, outcome.command_id, patience)
    if command.status in _OPEN or write_outcome is None:
        command_id = (await _ids(caller)).encode(command.id)
        response = Response(write(Accepted, command_id=command_id, status=command.status), 202)
    else:
        _refuse_unless_done(command, outcome)
        response = Response(write_outcome(command))
    return response._replace(headers={**response.headers, **outcome.headers}, language=outcome.language)


def _refuse_unless_done(command: CommandView, accepted: CommandAccepted) -> None:
    if command.status == CommandStatus.WITHDRAWN:
        raise ApiError(STATE_FORBIDS, headers=accepted.headers, language=accepted.language)
    if command.status == CommandStatus.REJECTED:
        code = _public_code(command)
        if code is None:
            _log.error(
                "command.rejected", id=command.id, code=command.error_code, error=command.error_message
            )
        raise ApiError(code or INTERNAL, headers=accepted.headers, language=accepted.language)


async def _ended(caller: Caller, command_id: int, patience: float) -> CommandView:
    """Return the command when it has ended, or as it is when that takes too long."""
    loop, pause = asyncio.get_running_loop(), FIRST_LOOK_SECONDS
    deadline = loop.time() + patience
    while True:
        command = await _read(caller, command_id)
        assert command is not None, "commands are kept for a year"
        left = deadline - loop.time()
        if command.status not in _OPEN or left <= 0:
            return command
        # The command is looked up again and again: a notification would not get through a pooler.
        await asyncio.sleep(min(pause, left))  # noqa: TID251
        pause = min(pause * 1.5, MAX_LOOK_SECONDS)


def endpoint_of(head: Head) -> UUID | None:
    """Read which of the merchant's endpoints is meant; None: number 1, as where no path says it."""
    return uuid_of(head, "endpointId") if "endpointId" in head.parameters else None


async def when_held(request: Request, carry_out: Callable[[], Awaitable[T]]) -> T:
    """Carry a request out that may have to wait for a pause, which is given in a transaction of its own.

    ApiError where events are not kept back in time: nothing but the pause was done; the client asks again.
    """
    caller = request.caller

    async def pause() -> None:
        endpoint = endpoint_of(request.head)
        given = await Endpoints(caller.database).ask(caller.token, CommandName.PAUSE, endpoint=endpoint)
        unless_refused(given, NOT_CONFIGURED)

    try:
        return await held_rotation.when_held(carry_out, pause)
    except StillSending:
        cause, reason = STILL_SENDING, ADDED_LATER
    except NotHeld:
        cause, reason = NOT_HELD, HELD_LATER
    raise ApiError(STATE_FORBIDS, headers={"Retry-After": "1"}, extra={"cause": cause, "reason": reason})


async def _read(caller: Caller, command_id: int) -> CommandView | None:
    command = await Endpoints(caller.database).command(caller.token, command_id)
    if command is None or command.result is None or "reason" not in command.result:
        return command
    reason = public_reason(command.result.get("outcome"), command.result["reason"])
    return replace(command, result={**command.result, "reason": reason})


def _public_code(command: CommandView) -> int | None:
    """Return the code of a rejected command, if a merchant may be told it; any other is a fault of ours."""
    return command.error_code if command.error_code in COMMAND_CODES else None


def unless_refused(command: NewCommand, missing: int = DELIVERY_NOT_FOUND) -> CommandAccepted:
    """Return the command that was given, or refuse the request where the database did not take it.

    missing: the code of what it is about, where there is none.
    """
    if command.id is not None:
        return CommandAccepted(command.id)
    if command.result is CommandOutcome.NOT_FOUND:
        raise ApiError(missing)
    raise ApiError(
        STATE_FORBIDS, headers={"Retry-After": "1"}, extra={"cause": TOO_MANY_COMMANDS, "reason": TOO_MANY}
    )
