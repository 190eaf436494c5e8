"""Looking for a command where there is none writes nothing: no transaction id is taken, no commit flushed."""

from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.domain.command import Queue
from webhook_dispatcher.storage.controls import PostgresCommandTransaction, PostgresControls

ID = "SELECT pg_current_xact_id_if_assigned()"
COMMAND = "INSERT INTO webhook.control (command, requested_by) VALUES ('resume', 'ops') RETURNING id"


async def test_looking_for_a_command_takes_no_transaction_id_where_there_is_none(
    storage: StorageHarness,
) -> None:
    daemon = await storage.daemon("d")
    async with PostgresControls(daemon.pool).transaction() as transaction:
        assert isinstance(transaction, PostgresCommandTransaction)
        for queue in Queue:
            assert await transaction.next_commands(queue, [], 9) == []
        assert await transaction.connection.fetchval(ID) is None
    command = await storage.db.fetchval(COMMAND)
    async with PostgresControls(daemon.pool).transaction() as transaction:
        assert isinstance(transaction, PostgresCommandTransaction)
        assert [found.id for found in await transaction.next_commands(Queue.BRAKES, [], 9)] == [command]
        assert await transaction.connection.fetchval(ID) is None
        await transaction.await_control()
        assert await transaction.take(command)
        assert await transaction.connection.fetchval(ID) is not None, "two dispatchers could take it up"
