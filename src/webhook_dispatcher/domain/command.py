"""The control table's commands: which there are, what each takes, and reading rows into them.

COMMANDS has one entry for each. Parsing, the metrics' labels, the command line's help and docs/reference.md
follow from it.
Source: contract 3, `webhook.control`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NoReturn, Self
from uuid import UUID

from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.domain.event import (
    CHARGE_TYPES,
    EVENT_TYPES,
    TEST_EVENT_TYPE,
    FailedReason,
    State,
    is_own_type,
    render_instant,
)
from webhook_dispatcher.domain.lane import MAX_NUMBER, merchant_of

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
MAX_RETRIED = 10_000_000
RECOVERED_BY_DEFAULT = (State.FAILED, State.PENDING_RETRY, State.DELIVERED)
RECOVERABLE = (*map(str, RECOVERED_BY_DEFAULT), str(FailedReason.SKIPPED))
"""What `recover` may be asked for: states, and those skipped, which `failed` does not include."""
KINDS = (str(State.PENDING), *RECOVERABLE)
"""What previews of mass commands count, in the order in which they show it."""
SENT_AGAIN = (State.FAILED,)
"""What people are offered to send again first: nothing is lost by that. They ask for all else by name."""
TESTED_TYPES = (TEST_EVENT_TYPE, *CHARGE_TYPES)
RECOVERABLE_TYPES = tuple(name for name in EVENT_TYPES if name != TEST_EVENT_TYPE)
UNKNOWN = "unknown"
"""What metrics and logs call a command that is none of ours."""


class LeaveOut(StrEnum):
    """What `recover` may be told to leave out of what matches."""

    LAST_ATTEMPTS = "last_attempts"
    """What waits for the last attempt of its schedule."""
    FAILING = "failing"
    """Merchants who fail when it is asked for: their latest attempt failed, with no success since."""


class Code(IntEnum):
    """Why a command was rejected."""

    INVALID_URL = -14001
    NOT_CONFIGURED = -14002
    NOT_FOUND = -14003
    WRONG_STATE = -14004
    MALFORMED = -14005


class CommandName(StrEnum):
    """Which commands there are; COMMANDS says what each is."""

    RETRY = "retry"
    RETRY_FAILED = "retry_failed"
    RECOVER = "recover"
    SKIP = "skip"
    TEST_EVENT = "test_event"
    SET_URL = "set_url"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


class CommandStatus(StrEnum):
    """How far a command has come."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


HANDLED_STATUSES = (CommandStatus.DONE, CommandStatus.REJECTED)
"""How a command ends that a dispatcher has taken up."""


class Queue(Enum):
    """In which commands wait: no operator's waits for a merchant's, and no brake for what takes long.

    Brakes are operators' pause, resume and cancel. Whose a command is, the database says: the role that was
    connected when it was inserted.
    """

    BRAKES = "brakes"
    OPERATORS = "operators"
    MERCHANTS = "merchants"


class CommandRejected(DispatcherError):
    """A command cannot be carried out. Reaction: write code and message beside it."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """A command that was given, and how it stands; status may be one that only a newer version knows."""

    id: int
    command: str
    requested_by: str
    status: str
    created_at: datetime
    handled_at: datetime | None


@dataclass(frozen=True, slots=True)
class CommandView:
    """What became of a command. result: also how far it has come, while it is running."""

    id: int
    command: str
    event_id: UUID | None
    created_at: datetime
    status: str
    handled_at: datetime | None
    result: Mapping[str, Any] | None
    error_code: int | None
    error_message: str | None

    @property
    def is_final(self) -> bool:
        """Tell whether it has ended. A state that only a newer version knows counts as an end."""
        return self.status not in (CommandStatus.PENDING, CommandStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class ListedCommand(CommandView):
    """A command in a list of everybody's. merchant_id: as the command names it."""

    requested_by: str
    merchant_id: str | None


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A row of the control table, not parsed yet.

    args: None when they are not a JSON object that we can read.
    result: the progress of an earlier worker, if one began the command and went away; None like args.
    """

    id: int
    name: str
    merchant_id: str | None
    event_id: UUID | None
    args: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    created_at: datetime
    requested_by: str

    @property
    def label(self) -> str:
        """Return the command's name for metrics and logs, which must not hold what anybody may write."""
        return self.name if self.name in COMMANDS else UNKNOWN

    @property
    def facts(self) -> dict[str, Any]:
        """Say for the log which command it is, who asked for it, and whom it concerns."""
        concerned = {"merchant_id": self.merchant_id, "event_id": self.event_id and str(self.event_id)}
        named = {name: value for name, value in concerned.items() if value is not None}
        return {"command_id": self.id, "command": self.label, "requested_by": self.requested_by, **named}


@dataclass(frozen=True, slots=True)
class WaitingCommand:
    """A command that may be taken up now, as a look at the control table shows it.

    subject: whose commands it waits for; None where the table does not say.
    is_plain_cancel: it can be carried out together with others like it.
    """

    id: int
    subject: str | None = None
    is_plain_cancel: bool = False


@dataclass(frozen=True, slots=True)
class TakenCancel:
    """An operator's cancel that is carried out together with others. subject: as of a WaitingCommand."""

    id: int
    event_id: UUID
    subject: str
    requested_by: str


@dataclass(frozen=True, slots=True)
class HandledCommand:
    """A command that was carried out together with others, or rejected: then `rejection` says why."""

    id: int
    result: Mapping[str, Any] | None = None
    rejection: CommandRejected | None = None

    @property
    def status(self) -> CommandStatus:
        """Return how it ended."""
        return CommandStatus.DONE if self.rejection is None else CommandStatus.REJECTED


@dataclass(frozen=True, slots=True)
class Retry:
    """Attempt a delivery now: one, or all of an event, or that of an endpoint."""

    event_id: UUID
    force: bool
    endpoint: int | None = None

    @classmethod
    def from_row(cls, row: CommandRow) -> Self:
        """Read a row; CommandRejected when it is malformed."""
        return cls(_event_id(row), _flag(row, "force"), _endpoint(row))


@dataclass(frozen=True, slots=True)
class RetryFailed:
    """Attempt every failed delivery now that finished within [since, until)."""

    merchant_id: str | None
    since: datetime
    until: datetime
    limit: int
    endpoint: int | None = None

    @classmethod
    def from_row(cls, row: CommandRow) -> Self:
        """Read a row; CommandRejected when it is malformed."""
        return cls(row.merchant_id, *_period(row), _endpoint_of_merchant(row))


@dataclass(frozen=True, slots=True)
class Recover:
    """Send what belongs to a range of time: what failed and what waits now, what was delivered again.

    Finished deliveries are those that finished within [since, until); waiting ones were created before until.
    states: of RECOVERABLE. types: of these event types only; None: of all. charge: of this charge only.
    leave_out: of LeaveOut. created_at: of the command; who fails by then fails now. retries: of the schedule,
        which a row does not say: the last attempt follows as many of it. None: nobody asks for that.
    endpoint: of this number of the merchant's; None: of all.
    """

    merchant_id: str | None
    since: datetime
    until: datetime
    limit: int
    states: tuple[str, ...] = tuple(map(str, RECOVERED_BY_DEFAULT))
    types: tuple[str, ...] | None = None
    charge: str | None = None
    leave_out: tuple[str, ...] = ()
    created_at: datetime = LONG_AGO
    retries: int | None = None
    endpoint: int | None = None

    @property
    def failing_since(self) -> datetime | None:
        """Who fails since then, or for longer, is left out; None: nobody is."""
        return self.created_at if LeaveOut.FAILING in self.leave_out else None

    @property
    def below_attempts(self) -> int | None:
        """How many attempts of the schedule what waits must have fewer of; None: any."""
        if LeaveOut.LAST_ATTEMPTS not in self.leave_out:
            return None
        if self.retries is None:
            raise ValueError("which attempt is the last depends on the schedule")
        return self.retries

    @classmethod
    def from_row(cls, row: CommandRow) -> Self:
        """Read a row; CommandRejected when it is malformed."""
        return cls(
            row.merchant_id,
            *_period(row),
            _choice(row, "states", RECOVERABLE) or tuple(map(str, RECOVERED_BY_DEFAULT)),
            *_which_events(row),
            _choice(row, "leave_out", tuple(LeaveOut)) or (),
            row.created_at,
            endpoint=_endpoint_of_merchant(row),
        )

    @property
    def args(self) -> dict[str, Any]:
        """Write it as `from_row` reads it; what is None need not be given."""
        return {
            "since": render_instant(self.since),
            "until": render_instant(self.until),
            "states": list(self.states),
            "types": list(self.types) if self.types else None,
            "charge": self.charge,
            "leave_out": list(self.leave_out) or None,
            "limit": self.limit or None,
            "endpoint": self.endpoint,
        }


@dataclass(frozen=True, slots=True)
class Skip:
    """Give up what is owed and was created within [since, before).

    merchant_id: None for all. types, charge, endpoint: as of Recover.
    """

    merchant_id: str | None
    before: datetime
    since: datetime = LONG_AGO
    types: tuple[str, ...] | None = None
    charge: str | None = None
    endpoint: int | None = None

    @classmethod
    def from_row(cls, row: CommandRow) -> Self:
        """Read a row; CommandRejected when it is malformed."""
        is_for_all = _flag(row, "all")
        if (row.merchant_id is None) != is_for_all:
            _malformed(f"{row.name} needs either merchant_id or args.all = true")
        before = _instant(row, "before")
        if before is None:
            _malformed(f"{row.name} needs args.before, an instant")
        since = _instant(row, "since") or LONG_AGO
        before, endpoint = min(before, row.created_at), _endpoint_of_merchant(row)
        return cls(row.merchant_id, before, since, *_which_events(row), endpoint)

    @property
    def args(self) -> dict[str, Any]:
        """Write it as `from_row` reads it; what is None need not be given."""
        return {
            "since": None if self.since == LONG_AGO else render_instant(self.since),
            "before": render_instant(self.before),
            "types": list(self.types) if self.types else None,
            "charge": self.charge,
            "all": self.merchant_id is None or None,
            "endpoint": self.endpoint,
        }


@dataclass(frozen=True, slots=True)
class TestEvent:
    """Send a sample event at once. type: what its merchant is told."""

    __test__ = False
    merchant_id: str
    type: str = TEST_EVENT_TYPE
    endpoint: int | None = None

    @classmethod
    def from_row(cls, row: CommandRow) -> Self:
        """Read a row; CommandRejected when it is malformed."""
        chosen = _argument(row, "type", TEST_EVENT_TYPE)
        if chosen not in TESTED_TYPES and not is_own_type(chosen):
            malformed_type()
        return cls(_merchant_id(row), chosen, _endpoint(row))


@dataclass(frozen=True, slots=True)
class SetUrl:
    """Change an endpoint's URL."""

    merchant_id: str
    url: str
    endpoint: int = 1

    @classmethod
    def from_row(cls, row: CommandRow) -> Self:
        """Read a row; CommandRejected when it is malformed."""
        url = _text(row, "url")
        return cls(_merchant_id(row), url, _endpoint(row) or 1)


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause or resume an endpoint, a merchant, or everything."""

    merchant_id: str | None
    is_paused: bool
    endpoint: int | None = None

    @classmethod
    def from_row(cls, row: CommandRow) -> Self:
        """Read a row of `pause`; CommandRejected when it is malformed."""
        return cls._of(row, is_paused=True)

    @classmethod
    def from_resume_row(cls, row: CommandRow) -> Self:
        """Read a row of `resume`; CommandRejected when it is malformed."""
        return cls._of(row, is_paused=False)

    @classmethod
    def _of(cls, row: CommandRow, is_paused: bool) -> Self:
        return cls(row.merchant_id, is_paused, _endpoint_of_merchant(row))


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give up a delivery that is owed: one, or all of an event, or that of an endpoint."""

    event_id: UUID
    endpoint: int | None = None

    @classmethod
    def from_row(cls, row: CommandRow) -> Self:
        """Read a row; CommandRejected when it is malformed."""
        return cls(_event_id(row), _endpoint(row))


ShortCommand = Retry | SetUrl | Pause | Cancel
LongCommand = RetryFailed | Recover | Skip | TestEvent
"""Commands that take longer than one transaction may: they are `running` in between."""
Command = ShortCommand | LongCommand


@dataclass(frozen=True, slots=True)
class CommandLine:
    """How the command line offers a command.

    path: the words it is called by, after the program's name.
    summary: for lists of commands. details: what else the command's own help says.
    example: without the program's name. module: which one of the command line has its function.
    """

    path: tuple[str, ...]
    summary: str
    example: str
    details: str = ""
    module: str = "control"

    @property
    def help(self) -> str:
        """Return the command's own help."""
        return "\n\n".join(filter(None, [self.summary, self.details]))


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """What there is to know about one command.

    from_row: reads a row that bears its name.
    needs: columns and arguments without which it is rejected (markdown, as all below); "or" between choices.
    takes: those it may have besides. effect: what it does. result: what it brings.
    cli: None where the command line does not offer the command.
    counted_as: of a mass command, the fact of its result that counts what it has done; None: it is none.
    """

    from_row: Callable[[CommandRow], Command]
    needs: str
    takes: str
    effect: str
    result: str = ""
    cli: CommandLine | None = None
    counted_as: str | None = None

    @property
    def is_mass(self) -> bool:
        """Tell whether it is for many deliveries at once, chunk by chunk; then it can be stopped."""
        return self.counted_as is not None


_EXAMPLE_EVENT = "0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11"

# SQL names commands, too, where it asks whether one is a brake (control.sql), a mass command (schema.sql's
# stop_command, console_delivery.sql), a pause (in all that shows one), or a merchant's to give (schema.sql).
COMMANDS: Mapping[str, CommandSpec] = MappingProxyType(
    {
        CommandName.RETRY: CommandSpec(
            Retry.from_row,
            "`event_id`",
            "`args.force`, `args.endpoint`",
            "`failed`: one attempt now (one that was never attempted goes back to its place in the order "
            "for it); if it fails, `failed` again. `pending_retry`: one attempt now, beside its schedule, "
            "whose next one stays due when it was. "
            "`delivered`: only with `args.force`, and it stays `delivered` whatever comes of it",
            "`in_flight`: true if an attempt is due, or is, or may be, under way; then that one is it",
            CommandLine(
                ("deliveries", "retry"),
                "Attempt one delivery now: a failed one once more, a waiting one beside its schedule.",
                f"deliveries retry {_EXAMPLE_EVENT}",
                "Waits for the attempt and shows what came of it; exits with 1 when it was not delivered.",
            ),
        ),
        CommandName.RETRY_FAILED: CommandSpec(
            RetryFailed.from_row,
            "`merchant_id` or `args.since`",
            "`args.until`, `args.limit`, `args.endpoint` (with `merchant_id`)",
            "the same for every failed delivery that matches, oldest first, in chunks; not for cancelled "
            "and skipped ones, tests, and merchants without an endpoint. `args.since` ≤ `finished_at` < "
            "`args.until` (by default, and at the latest, the time of the command); at most `args.limit`. "
            "The next ten follow when half of the last have been attempted, or after 0.2 seconds. "
            "`webhook.stop_command` ends it",
            "`matched`, `retried`; while `running` also `passed`, `reached`; `stopped` if it was",
            CommandLine(
                ("deliveries", "retry-failed"),
                "Attempt failed deliveries once more: those of a merchant, or that failed in a range of "
                "time.",
                "deliveries retry-failed --merchant merchant-1 --since PT6H",
            ),
            counted_as="retried",
        ),
        CommandName.RECOVER: CommandSpec(
            Recover.from_row,
            "`merchant_id` or `args.since`",
            "`args.until`, `args.states`, `args.types`, `args.charge`, `args.leave_out`, `args.limit`, "
            "`args.endpoint` (with `merchant_id`)",
            "sends everything of a range of time: `failed` and `pending_retry` ones as by `retry`, "
            "`delivered` ones again (trigger `replay`; they stay `delivered`). `args.states` names some of "
            "them (by default all three), or `skipped`. Finished ones by `finished_at`, as for "
            "`retry_failed`; waiting ones if they were created before `args.until`. Those first, then the "
            "finished ones, oldest first, paced like `retry_failed`; not for cancelled ones, tests, "
            "merchants without an endpoint, and `$platform`, unless it is named. `args.leave_out` names what "
            "else is left out: `last_attempts` (what waits for the last of its schedule), `failing` "
            "(merchants who fail when the command is given: their latest attempt failed, with no success "
            "since). "
            "`webhook.stop_command` ends it",
            "`matched` by state, `recovered`; while `running` also `passed` (rows looked at), `reached`; "
            "`stopped` if it was",
            CommandLine(
                ("recover",),
                "Send a range of time again: what failed; what waits or was delivered, where asked for.",
                "recover merchant-1 --since 2026-11-20T02:00:00Z --until 2026-11-20T05:00:00Z --dry-run",
                "Shows how many these are, and what is left out of them, and asks. `commands stop` ends it.",
                "recover",
            ),
            counted_as="recovered",
        ),
        CommandName.SKIP: CommandSpec(
            Skip.from_row,
            "`merchant_id`, `args.before` or `args.all`, `args.before`",
            "`args.since`, `args.types`, `args.charge`, `args.endpoint` (with `merchant_id`)",
            "`cancel` for many: what is owed (`pending` and `pending_retry`), was created before "
            "`args.before`, and matches, becomes `failed` with the reason `skipped`, without an attempt, in "
            "chunks; an attempt in flight ends and counts, and a 2xx makes the delivery `delivered` all the "
            "same. `args.since` ≤ `created_at`; `args.types` and `args.charge` as of `recover`. "
            "`$platform`'s only where it is named. `webhook.stop_command` ends it",
            "`skipped`; while `running` also `passed`, `reached`; `stopped` if it was",
            CommandLine(
                ("skip",),
                "Give up what is owed of a range of time, without an attempt: it fails as skipped.",
                "skip merchant-1 --before 2026-11-20T00:00:00Z --dry-run",
                "Shows how many these are, and asks. `commands stop` ends it.",
                "recover",
            ),
            counted_as="skipped",
        ),
        CommandName.TEST_EVENT: CommandSpec(
            TestEvent.from_row,
            "`merchant_id`",
            "`args.type`, `args.endpoint` (else the first)",
            "a `webhook.test` event with a sample charge: one attempt at once, outside the order, never "
            "retried; also to a merchant that is paused by itself. `args.type`: the merchant is sent a "
            "sample of this type instead, with the charge `ch_test_failed` for `charge.failed` and so on",
            "`event_id`, `outcome`, `status`; `reason` where it failed; `type` where one was asked for",
            CommandLine(
                ("test-event",),
                "Send a merchant a webhook.test event with a sample charge, at once and only once.",
                "test-event merchant-1 --type charge.failed",
                "Exits with 1 when it was not delivered.",
            ),
        ),
        CommandName.SET_URL: CommandSpec(
            SetUrl.from_row,
            "`merchant_id`, `args.url`",
            "`args.endpoint` (else number 1)",
            "changes the URL of a configured endpoint",
        ),
        CommandName.PAUSE: CommandSpec(
            Pause.from_row,
            "",
            "`merchant_id`, else everything; `args.endpoint`, else all of the merchant",
            "nothing is sent while paused; events are kept, in order, and due retries wait",
            cli=CommandLine(
                ("pause",),
                "Stop sending to a merchant (or to all): events are kept, in order, until `resume`.",
                "pause merchant-1",
            ),
        ),
        CommandName.RESUME: CommandSpec(
            Pause.from_resume_row,
            "",
            "`merchant_id`, else everything; `args.endpoint`, else all of the merchant",
            "ends a pause, and a merchant's suspension; that of everything and that of one merchant are "
            "switches of their own",
            cli=CommandLine(
                ("resume",), "Send to a merchant (or to all) again after `pause`.", "resume --all"
            ),
        ),
        CommandName.CANCEL: CommandSpec(
            Cancel.from_row,
            "`event_id`",
            "`args.endpoint`",
            "`pending` or `pending_retry` becomes `failed` with the reason `cancelled`",
            "`in_flight`: true if an attempt is, or may be, under way; it ends and counts, and a 2xx makes "
            "the delivery `delivered` all the same",
        ),
    }
)


def parse_command(row: CommandRow) -> Command:
    """Read a row; CommandRejected (MALFORMED) says what is missing or wrong."""
    if row.args is None:
        _malformed("args must be a JSON object of reasonable size")
    if row.result is None:
        malformed_progress()
    if (spec := COMMANDS.get(row.name)) is None:
        _malformed(f"unknown command; known are {', '.join(COMMANDS)}")
    if row.merchant_id is not None and merchant_of(row.merchant_id) != row.merchant_id:
        _malformed("merchant_id holds a control character")
    return spec.from_row(row)


def malformed_progress() -> NoReturn:
    """Reject a command whose result, as it stands, no worker of ours can have written."""
    _malformed("result is not what a worker wrote: ask anew")


def malformed_type() -> NoReturn:
    """Reject a test of a type that there is not."""
    _malformed(f"args.type is one of {', '.join(TESTED_TYPES)}, or of your own types")


def _argument(row: CommandRow, name: str, default: object = None) -> Any:
    return (row.args or {}).get(name, default)


def _instant(row: CommandRow, name: str) -> datetime | None:
    text = _argument(row, name)
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        _malformed(f"args.{name} is an instant such as 2026-11-20T08:15:30Z")
    _malformed(f"args.{name} needs an offset, such as Z or +00:00")


def _period(row: CommandRow) -> tuple[datetime, datetime, int]:
    """Read of which range of time deliveries are sent again, and of how many at most."""
    since = _instant(row, "since")
    if row.merchant_id is None and since is None:
        _malformed(f"{row.name} needs merchant_id or args.since")
    limit = _count(row, "limit", MAX_RETRIED)
    # Deliveries that fail again after the command was given are left out, or it would never end.
    until = min(_instant(row, "until") or row.created_at, row.created_at)
    return since or LONG_AGO, until, limit


def _flag(row: CommandRow, name: str) -> bool:
    flag = _argument(row, name, False)
    if not isinstance(flag, bool):
        _malformed(f"args.{name} is true or false")
    return flag


def _choice(row: CommandRow, name: str, known: tuple[str, ...]) -> tuple[str, ...] | None:
    """Read a list of some of the known words; None when there is none."""
    chosen = _argument(row, name)
    if chosen is None:
        return None
    if not isinstance(chosen, list) or not chosen or not all(word in known for word in chosen):
        _malformed(f"args.{name} is a list of some of {', '.join(known)}")
    return tuple(word for word in known if word in chosen)


def _which_events(row: CommandRow) -> tuple[tuple[str, ...] | None, str | None]:
    """Read of which types and of which charge events must be; None: of any."""
    charge = None if _argument(row, "charge") is None else _text(row, "charge")
    return _types(row), charge


def _types(row: CommandRow) -> tuple[str, ...] | None:
    """Read a list of types, ours or one's own; None when there is none."""
    chosen = _argument(row, "types")
    own = set(filter(is_own_type, chosen)) if isinstance(chosen, list) else set()
    return _choice(row, "types", (*RECOVERABLE_TYPES, *sorted(own)))


def _count(row: CommandRow, name: str, highest: int) -> int:
    """Read a number from 1 to `highest`, which is also what counts when there is none."""
    count = _argument(row, name, highest)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= highest:
        _malformed(f"args.{name} is a whole number from 1 to {highest}")
    return count


def _text(row: CommandRow, name: str) -> str:
    text = _argument(row, name)
    if not isinstance(text, str):
        _malformed(f"{row.name} needs args.{name}, a string")
    return text


def _event_id(row: CommandRow) -> UUID:
    if row.event_id is None:
        _malformed(f"{row.name} needs event_id")
    return row.event_id


def _endpoint(row: CommandRow) -> int | None:
    """Read the number of one of the merchant's endpoints; None: all of them, or the first."""
    return None if _argument(row, "endpoint") is None else _count(row, "endpoint", MAX_NUMBER)


def _endpoint_of_merchant(row: CommandRow) -> int | None:
    """Read it where a merchant need not be named; that number of everybody cannot be meant."""
    endpoint = _endpoint(row)
    if endpoint is not None and row.merchant_id is None:
        _malformed("args.endpoint needs merchant_id")
    return endpoint


def _merchant_id(row: CommandRow) -> str:
    if row.merchant_id is None:
        _malformed(f"{row.name} needs merchant_id")
    return row.merchant_id


def _malformed(message: str) -> NoReturn:
    raise CommandRejected(Code.MALFORMED, message)
