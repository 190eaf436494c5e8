"""A producer's INSERT waits for nobody, whatever others hold. Source: I6."""

from tests.servers.database import Database

INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m1', 'charge.created', '{}')"
LOCKS = """
SELECT locktype, coalesce(relation::regclass::text, '') AS relation FROM pg_locks
WHERE pid = $1 AND locktype <> 'virtualxid'
"""


async def test_an_insert_takes_no_lock_that_another_could_wait_for(database: Database) -> None:
    owner, first, second = [
        await database.connect(user) for user in ("postgres", "webhook_producer", "webhook_producer")
    ]
    await owner.execute("INSERT INTO webhook.endpoint VALUES ('m1', 'https://merchant.com/', '', 'k1')")
    transactions = [connection.transaction() for connection in (owner, first, second)]
    for transaction in transactions:
        await transaction.start()
    # Beside another producer of the same merchant, and everything of a daemon's or an operator's.
    for table in ("lane", "endpoint", "state", "control"):
        await owner.execute(f"LOCK TABLE webhook.{table} IN ACCESS EXCLUSIVE MODE")
    for producer in (first, second):
        await producer.execute("SET LOCAL lock_timeout = '10ms'")
        await producer.execute(INSERT)
    locks = await owner.fetch(LOCKS, second.get_server_pid())
    assert {lock["locktype"] for lock in locks} == {"relation", "transactionid"}
    assert all(lock["relation"].startswith("webhook.outbox") for lock in locks if lock["relation"]), locks
    await transactions[2].commit()
    assert await owner.fetchval("SELECT count(*) FROM webhook.outbox") == 1
    for transaction in transactions[:2]:
        await transaction.rollback()
    for connection in (owner, first, second):
        await connection.close()
