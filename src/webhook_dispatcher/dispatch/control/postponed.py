"""Commands that could not be carried out just now: left alone for a moment, and then taken up last."""

from webhook_dispatcher.domain.clock import Clock

POSTPONE_SECONDS = 1.0
"""Seconds for which a command that could not be carried out is skipped, so that others go first."""
FORGET_SECONDS = 60.0
"""Seconds after which it is forgotten: another dispatcher may have handled it."""


class Postponed:
    """Remembers which commands failed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}

    def add(self, command_id: int) -> None:
        """Skip a command for a moment."""
        self._until[command_id] = self._clock.elapsed() + POSTPONE_SECONDS

    def forget(self, command_id: int) -> None:
        """Learn that a command was handled."""
        self._until.pop(command_id, None)

    def has_failed(self, command_id: int) -> bool:
        """Tell whether a command has failed before: if it fails again, others should not wait for that."""
        return command_id in self._until

    def ids(self) -> list[int]:
        """Return the commands to be skipped now."""
        now = self._clock.elapsed()
        self._until = {id_: until for id_, until in self._until.items() if until > now - FORGET_SECONDS}
        return [id_ for id_, until in self._until.items() if until > now]
