"""A command that is being carried out outside of the transaction that took it up."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog

from webhook_dispatcher.domain.command import Code, CommandRow, CommandStatus
from webhook_dispatcher.domain.ports import CommandTransaction, Controls, TestLog
from webhook_dispatcher.telemetry.metrics import Metrics

MARGIN = timedelta(seconds=20)
"""How much longer than an attempt may take a running command is its worker's: the time of a chunk."""

_log = structlog.get_logger()


def running_lease(attempt_timeout: timedelta) -> timedelta:
    """Return how long a running command is its worker's, unless renewed: longer than an attempt may take."""
    return attempt_timeout + MARGIN


class RunningCommand:
    """A command that is marked as running, and ours until its lease ends.

    It alone knows the token by which the control table recognises our lease. All methods raise StorageError,
    and LeaseLost when another worker has the command now.
    """

    def __init__(
        self, row: CommandRow, token: datetime, lease: timedelta, controls: Controls, metrics: Metrics
    ) -> None:
        self._row = row
        self._token = token
        self._lease = lease
        self._controls = controls
        self._metrics = metrics

    @property
    def id(self) -> int:
        """Return the command's id."""
        return self._row.id

    async def renew(self, transaction: CommandTransaction, progress: Mapping[str, Any]) -> None:
        """Prolong the lease and write the progress down, when the transaction is committed."""
        self._token = await transaction.mark_running(self.id, self._lease, progress, self._token)

    async def release(self, progress: Mapping[str, Any]) -> None:
        """End the lease now, so that another dispatcher goes on at once."""
        async with self._controls.transaction() as transaction:
            await transaction.mark_running(self.id, timedelta(), progress, self._token)

    async def finish(self, result: Mapping[str, Any], test: TestLog | None = None) -> None:
        """Mark the command as done, and write a test event down in the same transaction."""
        async with self._controls.transaction() as transaction:
            if test is not None:
                await transaction.log_test_event(test)
            await transaction.finish(self.id, result, self._token)
        self._log_handled(CommandStatus.DONE)

    async def reject(self, code: Code, message: str) -> None:
        """Mark the command as rejected."""
        async with self._controls.transaction() as transaction:
            await transaction.reject(self.id, code, message, self._token)
        self._log_handled(CommandStatus.REJECTED, code=int(code))

    def _log_handled(self, status: CommandStatus, **facts: int) -> None:
        self._metrics.control_commands.labels(self._row.label, status).inc()
        _log.info("control.handled", **self._row.facts, status=status, **facts)
