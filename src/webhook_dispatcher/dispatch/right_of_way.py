"""Operators' commands go before all else that carries out commands.

The database's lock goes to whoever asks at the moment when it is free. Merchants' commands and the chunks of
mass commands ask hundreds of times a second, so that one who waits for it might wait for long. While an
operator's command does, they do not ask. Every dispatcher looks for the same command, and thereby makes way.
"""

from webhook_dispatcher.domain.ports import CommandTransaction


class RightOfWay:
    """Whether an operator's command waits, in this process."""

    def __init__(self) -> None:
        self._waiting = 0

    @property
    def is_taken(self) -> bool:
        """Tell whether others have to wait."""
        return self._waiting > 0

    async def take(self, transaction: CommandTransaction) -> None:
        """Keep other commands from running until this transaction ends, after the one that runs.

        Raises StorageError, also where that one takes too long.
        """
        self._waiting += 1
        try:
            await transaction.await_control()
        finally:
            self._waiting -= 1
