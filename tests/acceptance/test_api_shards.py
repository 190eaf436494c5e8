"""Three databases before one API: whoever comes names his own, and learns nothing of the others."""

import asyncio
import json
from collections.abc import Iterator

import asyncpg
import pytest

from tests.acceptance.api_merchant import Merchant, start_api
from tests.acceptance.installation import Installation
from tests.servers.database import TEMPLATE, Database
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.local.postgres import EmbeddedPostgres

SHARDS = ("eu1", "eu2", "eu3")


async def execute(server: EmbeddedPostgres, statement: str) -> None:
    connection = await asyncpg.connect(server.dsn())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
def databases(postgres: EmbeddedPostgres, database: Database) -> Iterator[dict[str, Database]]:
    """Make three migrated databases; the first is the installation's own."""
    names = [f"{database.name}_{shard}" for shard in SHARDS[1:]]
    for name in names:
        asyncio.run(execute(postgres, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
    yield dict(zip(SHARDS, [database, *(Database(postgres, name) for name in names)], strict=True))
    for name in names:
        asyncio.run(execute(postgres, f"DROP DATABASE {name} WITH (FORCE)"))


def urls(databases: dict[str, Database], user: str) -> dict[str, str]:
    """Return the settings that name all three."""
    listed = "\n".join(f"{shard}={each.dsn(user)}" for shard, each in databases.items())
    return {"DATABASE_URL": listed, "DATABASE_POOLER": "none"}


async def test_each_merchant_is_found_in_the_database_that_its_key_names(
    installation: Installation, databases: dict[str, Database]
) -> None:
    api = await start_api(installation, **urls(databases, "webhook_api"))
    base = f"http://127.0.0.1:{api.port}"
    merchants: dict[str, Merchant] = {}
    for shard in SHARDS:
        asked_for = ("api-key", "create", f"m-{shard}", "--name", "shop", "--json", "--shard", shard)
        made = installation.command(*asked_for, **urls(databases, "webhook_admin"))
        assert made.returncode == 0, made.stderr
        key = json.loads(made.stdout)
        merchants[shard] = Merchant(base, key["client_id"], key["client_secret"])
        producer = await databases[shard].connect("webhook_producer")
        await producer.execute(
            "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, 'charge.created', '{}')",
            f"m-{shard}",
        )
        await producer.close()
    for shard, merchant in merchants.items():
        async with merchant:
            assert (await merchant.log_in()).status == 200
            assert merchant.client_id.startswith(f"{shard}.")
            assert merchant.token is not None
            assert merchant.token.startswith(f"{shard}.")
            assert len((await merchant.ask("GET", "/v1/deliveries")).data) == 1
            await refused_alike(merchant, shard)


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
