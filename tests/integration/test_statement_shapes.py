"""Each named statement, prepared on a real server, takes and returns what its header says."""

import pytest

from tests.integration.statement_questions import SUBJECTS
from tests.servers.database import Database
from webhook_dispatcher.storage.statements import Statement, load

NAMES = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "bool": "boolean",
    "float8": "double precision",
}
STATEMENTS = [
    pytest.param(statement, id=f"{subject}.{statement.name}")
    for subject, role in SUBJECTS
    for statement in load(subject, role).values()
]


def _spelled(name: str) -> str:
    element = name.removesuffix("[]")
    return NAMES.get(element, element) + name[len(element) :]


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_header_says_what_the_server_says(schema_only: Database, statement: Statement) -> None:
    connection = await schema_only.connect()
    prepared = await connection.prepare(statement.text)
    taken = tuple(_spelled(parameter.name) for parameter in prepared.get_parameters())
    returned = [(attribute.name, _spelled(attribute.type.name)) for attribute in prepared.get_attributes()]
    assert taken == tuple(sqltype for _, sqltype in statement.parameters)
    assert returned == list(zip(statement.columns, statement.column_types, strict=True))
    await connection.close()
