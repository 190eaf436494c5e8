"""Three databases before one API: whoever comes names his own, and learns nothing of the others."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.acceptance.api_merchant import Merchant, PartnerApi, start_api
from tests.acceptance.installation import Installation
from tests.servers.database import Database, copy_database, execute
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.local.postgres import EmbeddedPostgres

SHARDS = ("eu1", "eu2", "eu3")
INSERT = (
    "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, 'charge.created', $2) RETURNING id"
)
CURSOR_KEY_OF_ITS_OWN = "UPDATE webhook.cursor_key SET key = sha256(convert_to(current_database(), 'UTF8'))"
"""The tests' databases are copies of one; each that was migrated by itself has a random one."""
Databases = dict[str, Database]


@pytest.fixture
def databases(postgres: EmbeddedPostgres, database: Database) -> Iterator[Databases]:
    """Make three migrated databases; the first is the installation's own."""
    names = [f"{database.name}_{shard}" for shard in SHARDS[1:]]
    for name in names:
        asyncio.run(copy_database(postgres, name))
    yield dict(zip(SHARDS, [database, *(Database(postgres, name) for name in names)], strict=True))
    for name in names:
        asyncio.run(execute(postgres, f"DROP DATABASE {name} WITH (FORCE)"))


def urls(databases: Databases, user: str) -> dict[str, str]:
    """Return the settings that name all three."""
    listed = "\n".join(f"{shard}={each.dsn(user)}" for shard, each in databases.items())
    return {"DATABASE_URL": listed, "DATABASE_POOLER": "none"}


def created(installation: Installation, databases: Databases, shard: str, merchant_id: str) -> dict[str, str]:
    """Make a key in one of the databases, as an operator does."""
    asked_for = ("api-key", "create", merchant_id, "--name", "shop", "--json", "--shard", shard)
    made = installation.command(*asked_for, **urls(databases, "webhook_admin"))
    assert made.returncode == 0, made.stderr
    key: dict[str, str] = json.loads(made.stdout)
    return key


@asynccontextmanager
async def clients(
    installation: Installation, databases: Databases, api: PartnerApi, *keys: tuple[str, str]
) -> AsyncIterator[list[Merchant]]:
    """Be clients of the API with a key each, made for a merchant in a database; they are not logged in."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                Merchant(f"http://127.0.0.1:{api.port}", key["client_id"], key["client_secret"])
            )
            for shard, merchant_id in keys
            for key in [created(installation, databases, shard, merchant_id)]
        ]


async def emitted(database: Database, merchant_id: str) -> str:
    """Write an event into a database as the charge service does, and return its id."""
    producer = await database.connect("webhook_producer")
    charge = json.dumps({"id": "ch_1", "in": database.name})
    event_id = await producer.fetchval(INSERT, merchant_id, charge)
    await producer.close()
    return str(event_id)


async def of_its_own(database: Database) -> None:
    superuser = await database.connect()
    await superuser.execute(CURSOR_KEY_OF_ITS_OWN)
    await superuser.close()


async def count(database: Database, table: str) -> int:
    """Count a table's rows."""
    superuser = await database.connect()
    rows: int = await superuser.fetchval(f"SELECT count(*) FROM webhook.{table}")
    await superuser.close()
    return rows


async def test_each_merchant_is_found_in_the_database_that_its_key_names(
    installation: Installation, databases: Databases
) -> None:
    api = await start_api(installation, **urls(databases, "webhook_api"))
    keys = [(shard, f"m-{shard}") for shard in SHARDS]
    async with clients(installation, databases, api, *keys) as merchants:
        for shard, merchant in zip(SHARDS, merchants, strict=True):
            await emitted(databases[shard], f"m-{shard}")
            assert (await merchant.log_in()).status == 200
            assert merchant.client_id.startswith(f"{shard}.")
            assert merchant.token is not None
            assert merchant.token.startswith(f"{shard}.")
            assert len((await merchant.ask("GET", "/v1/deliveries")).data) == 1
            await refused_alike(merchant, shard)


async def test_one_id_in_two_databases_is_two_merchants(
    installation: Installation, databases: Databases
) -> None:
    """What is the one's is not there for the other, and the same key of both is two keys."""
    api = await start_api(installation, **urls(databases, "webhook_api"))
    async with clients(installation, databases, api, ("eu1", "m"), ("eu2", "m")) as merchants:
        first, second = merchants
        for database in databases.values():
            await of_its_own(database)
        events = [await emitted(databases[shard], "m") for shard in SHARDS[:2] for _ in range(2)]
        for merchant, mine, others in ((first, events[:2], events[2:]), (second, events[2:], events[:2])):
            assert (await merchant.log_in()).status == 200
            listed = (await merchant.ask("GET", "/v1/deliveries")).data
            assert {each["eventId"] for each in listed} == set(mine)
            for event_id, status in ((mine[0], 200), (others[0], 404)):
                assert (await merchant.ask("GET", f"/v1/deliveries/{event_id}")).status == status
            shown = (await merchant.ask("GET", "/v1/charges/ch_1")).data
            assert shown["in"] == databases[merchant.client_id.partition(".")[0]].name
        page = await first.ask("GET", "/v1/deliveries?limit=1")
        elsewhere = await second.ask(
            "GET", f"/v1/deliveries?limit=1&cursor={page.json['meta']['nextCursor']}"
        )
        assert (elsewhere.status, elsewhere.code) == (422, codes.VALIDATION_FAILED)

        window = {"since": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}
        for number, merchant in enumerate((first, second), 1):
            replies = [await merchant.ask("POST", "/v1/deliveries/retry", window, "the same") for _ in "ab"]
            assert {reply.status for reply in replies} == {202}
            assert [reply.headers.get("Idempotent-Replayed") for reply in replies] == [None, "true"]
            kept = [
                [await count(databases[shard], table) for table in ("control", "api_request")]
                for shard in SHARDS
            ]
            assert kept == [[1, 1]] * number + [[0, 0]] * (3 - number)


async def refused_alike(merchant: Merchant, shard: str) -> None:
    """A database that is not his, one that is not there and none at all are the same to a stranger."""
    assert merchant.token is not None
    random, other = merchant.token.partition(".")[2], next(each for each in SHARDS if each != shard)
    replies = [
        await merchant.ask("GET", "/v1/webhook", Authorization=f"Bearer {token}")
        for token in (f"{other}.{random}", f"eu9.{random}", random, f"{shard}.{random[::-1]}")
    ]
    assert {(reply.status, reply.code) for reply in replies} == {(401, codes.INVALID_TOKEN)}
    assert len({json.dumps(reply.json["error"]) for reply in replies}) == 1
    client = merchant.client_id.partition(".")[2]
    merchant.token = None
    answers = []
    for name in (f"{other}.{client}", f"eu9.{client}", client, f"{shard}.{client[::-1]}"):
        credentials = {"clientId": name, "clientSecret": merchant.client_secret}
        answers.append(await merchant.ask("POST", "/v1/auth/token", credentials, None))
    assert {(reply.status, reply.code) for reply in answers} == {(401, codes.WRONG_CREDENTIALS)}
    assert len({json.dumps(reply.json["error"]) for reply in answers}) == 1
