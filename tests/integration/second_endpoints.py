"""A second endpoint for whoever is given one: tests `also_with_two_endpoints` run with it and without.

What is written for its merchant is number 1's at once, as if it had been routed, and what is asked of the
harness by merchant is asked of that. It shows a statement that looks up a merchant's endpoint as one row, or
takes a lane's name for a merchant's id.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.database import Database

_ADD = """
CREATE FUNCTION webhook.add_second() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    result text;
BEGIN
    UPDATE webhook.lane SET lease_until = '-infinity' WHERE lane.merchant_id = NEW.merchant_id;
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
CREATE FUNCTION webhook.give_to_first() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    lane text := webhook.lane_of(NEW.merchant_id, 1::smallint);
BEGIN
    IF lane <> NEW.merchant_id AND NEW.merchant_id NOT LIKE E'%\\x1f%' THEN
        NEW.merchant_id := lane;
        NEW.copy_of := NEW.id;
        NEW.xid := NULL;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER is_the_firsts BEFORE INSERT ON webhook.outbox
FOR EACH ROW EXECUTE FUNCTION webhook.give_to_first();
"""


@contextmanager
def second_endpoints_in(database: Database) -> Iterator[None]:
    """Give everybody who is given an endpoint while entered a second one."""
    asyncio.run(_execute(database, _ADD))
    yield
    asyncio.run(_execute(database, "DROP FUNCTION webhook.add_second(), webhook.give_to_first() CASCADE"))


async def _execute(database: Database, statements: str) -> None:
    superuser = await database.connect()
    try:
        await superuser.execute(statements)
    finally:
        await superuser.close()
