"""Change a charge and tell its merchant, in one transaction, with psycopg."""

import json
import os
import sys
from typing import Any

import psycopg
from psycopg.errors import CheckViolation
from psycopg.rows import dict_row

CHANGE = "UPDATE charge SET status = %s WHERE id = %s RETURNING id, merchant_id, status"
TELL = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES (%s, %s, %s)"


def change(connection: psycopg.Connection[dict[str, Any]], charge_id: str, status: str) -> None:
    with connection.transaction():
        charge = connection.execute(CHANGE, (status, charge_id)).fetchone()
        if charge is None:
            raise LookupError(charge_id)
        shown = {"id": charge["id"], "status": charge["status"]}  # all that GET /v1/charges/{id} answers
        connection.execute(TELL, (charge["merchant_id"], f"charge.{status}", json.dumps(shown)))


with psycopg.connect(os.environ["DATABASE_URL"], row_factory=dict_row) as connection:
    try:
        change(connection, *sys.argv[1:])
    except CheckViolation as refused:
        sys.exit(f"nothing was changed: {refused}")
