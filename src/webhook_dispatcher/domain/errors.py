"""One class per reaction; the caller decides by class, the operator reads the fields."""

MAY_NOT = "42501"
"""The SQLSTATE of a right that is wanting."""


class DispatcherError(Exception):
    """Anything this program raises on purpose."""


class ConfigurationError(DispatcherError):
    """A setting, key, URL or argument is wrong. Reaction: say it, a line for each problem, exit 2.

    remedy: what to do about the one problem there is, where that can be said.
    """

    def __init__(self, *problems: str, remedy: str | None = None, separator: str = ": ") -> None:
        self.problems = problems
        self.remedy = remedy
        message = "\n".join(problems)
        super().__init__(message if remedy is None else f"{message}{separator}{remedy}")


class UserError(DispatcherError):
    """What was asked cannot be done or was not found. Reaction: say it in one line, exit 1."""


class StorageError(DispatcherError):
    """The database did not do what it was asked."""

    @property
    def is_row_fault(self) -> bool:
        """Tell whether a row's own values are refused, not our rights, the statement or the database."""
        return False


class StorageUnavailable(StorageError):
    """The database cannot be reached, or gave up midway. Reaction: back off and go on.

    Whether the statement took effect is unknown: whoever wrote something writes it again.
    """


class LockTaken(StorageUnavailable):
    """Somebody else held a lock for longer than a statement was willing to wait: it took no effect."""


class StatementRefused(StorageError):
    """The database refused the values of one statement. Reaction: find the bad row, record it."""

    def __init__(self, sqlstate: str, detail: str) -> None:
        super().__init__(f"{sqlstate}: {detail}")
        self.sqlstate = sqlstate
        self.detail = detail

    @property
    def is_row_fault(self) -> bool:
        """Tell so by the SQLSTATE's class: 22 data exception, 23 constraint violation, XX internal error."""
        return self.sqlstate[:2] in ("22", "23", "XX")

    @property
    def is_damage(self) -> bool:
        """Tell whether what the database has stored is damaged (class XX, data corrupted among it)."""
        return self.sqlstate.startswith("XX")


class PartitionMissing(StatementRefused):
    """A log has no partition for an instant (SQLSTATE 23514). Reaction: have it made, and write again."""

    @property
    def is_row_fault(self) -> bool:
        """No, though its class is 23: nothing is wrong with the row."""
        return False


class SchemaMismatch(StorageError):
    """The schema is absent, or of a version this program does not serve. Reaction: exit 3.

    A statement that finds something missing may have met a change half-way: the daemon tries that one again.
    remedy: what to do about it.
    """

    def __init__(self, problem: str, remedy: str = "run `webhook-dispatcher migrate`") -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}: {remedy}")


class LeaseLost(DispatcherError):
    """Another worker has taken over what we were working on. Reaction: drop it, go on."""


class NotHeld(DispatcherError):
    """A secret is to be replaced while nothing is sent to its merchant, and that is not so yet.

    Reaction: pause the merchant where it is not paused, and ask again soon. Nothing was done.
    """

    def __init__(self, is_paused: bool) -> None:
        super().__init__("something is being sent still" if is_paused else "the merchant is not paused")
        self.is_paused = is_paused


class StillSending(NotHeld):
    """A second endpoint is to be added while its merchant's lane is held.

    Reaction: commit, which recalls the lane, and ask again soon.
    """

    def __init__(self) -> None:
        super().__init__(is_paused=True)


class UnopenedSecret(DispatcherError):
    """A stored secret does not open, or is none. Reaction: its lane waits; not the merchant's fault."""

    def __init__(self, key_id: str, reason: str, is_key_right: bool = False) -> None:
        super().__init__(f"encryption key {key_id!r}: {reason}")
        self.key_id = key_id
        self.reason = reason
        self.is_key_right = is_key_right


class UnknownKey(UnopenedSecret):
    """We do not hold the key that sealed a secret. Reaction: its lane waits, and we are not ready."""
