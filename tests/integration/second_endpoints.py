"""A second endpoint for whoever is given one: some modules' tests run with it as well as without.

That shows a statement that looks up a merchant's endpoint as one row, or by the merchant's id. Nobody routes
here: what waits stays in merchants' own lanes.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.database import Database

WITH_AND_WITHOUT = frozenset({"test_notices"})
"""Modules whose tests run twice."""
OF_ONE_ALONE: dict[str, str] = {}
"""Tests of these that are about one endpoint, and why."""

_ADD = """
CREATE FUNCTION webhook.add_second() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    result text;
BEGIN
    -- What it is sealed with is the current key for this moment alone.
    INSERT INTO webhook.sealing_key (key_id, public_half) VALUES ('k2', sha256(''));
    SELECT added.result INTO result
    FROM webhook.add_endpoint(
        NEW.merchant_id, NEW.url || 'second', decode(repeat('0', 144), 'hex'), 'hpke1:k2', NULL, NULL, NULL
    ) AS added;
    DELETE FROM webhook.sealing_key WHERE key_id = 'k2';
    IF result <> 'created' THEN
        RAISE EXCEPTION 'a second endpoint of % is %', NEW.merchant_id, result;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER second_is_added AFTER INSERT ON webhook.endpoint
FOR EACH ROW WHEN (NEW.merchant_id NOT LIKE E'%\\x1f%') EXECUTE FUNCTION webhook.add_second();
"""


@contextmanager
def second_endpoints_in(database: Database) -> Iterator[None]:
    """Give everybody who is given an endpoint while entered a second one."""
    asyncio.run(_execute(database, _ADD))
    yield
    asyncio.run(_execute(database, "DROP FUNCTION webhook.add_second() CASCADE"))


async def _execute(database: Database, statements: str) -> None:
    superuser = await database.connect()
    try:
        await superuser.execute(statements)
    finally:
        await superuser.close()
