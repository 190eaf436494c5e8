"""What schemathesis cannot guess, so that two requests of three lead somewhere.

Where a receiver listens, credentials, that most lists are long without filters, and what the charge service
takes and answers: the document describes neither, so it has no links to follow there.
Whether a request is changed follows from what it is, and what it becomes from those before it, so that a seed
repeats a run.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any
from zlib import crc32

import schemathesis

from tests.acceptance.api_fuzzing import CLIENT_ID, CLIENT_SECRET, MERCHANT, RECEIVER
from tests.acceptance.test_api_operations import CHARGE

CUSTOMER = {"externalUserId": "user-1", "name": "Ann"}
CONFIRM = "/v1/cards/{id}/confirm"
KNOWN: Mapping[str, str] = {
    "/v1/customers": CUSTOMER["externalUserId"],
    "/v1/merchants": MERCHANT,
    "/v1/charges": json.loads(CHARGE)["id"],
}
"""Ids that are there from the beginning, or come to be, by their collection."""

Case = schemathesis.Case[Any]
_made: dict[str, list[str]] = defaultdict(list)
"""Ids that were given, by their collection; those of cards that were confirmed, by CONFIRM."""
_numbers = count()


def _credentials(case: Case) -> object:
    client_id, secret = os.environ[CLIENT_ID], os.environ[CLIENT_SECRET]
    if case.media_type == "application/json":
        return {"clientId": client_id, "clientSecret": secret}
    return {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}


def _charge(_: Case) -> object:
    wanted = {"externalId": f"order-{next(_numbers)}", "cardId": _newest(CONFIRM), "amount": 1990}
    return {**wanted, "currency": "UZS", "recipients": [{"id": "rcp_1", "share": 10_000}]}


BODIES: Mapping[str, Callable[[Case], Any]] = {
    "issueToken": _credentials,
    "putWebhook": lambda _: {"url": os.environ[RECEIVER]},
    "bindCard": lambda _: {"number": "4111111111111111"},
    "confirmCard": lambda _: {"code": "111111"},
    "createCharge": _charge,
    "reverseCharge": lambda _: {},
    "createRecipient": lambda _: {"name": "Ann"},
    "changeRecipient": lambda _: {"name": "Ann"},
    "createCustomer": lambda _: CUSTOMER,
    "changeCustomer": lambda _: {"name": "Ann"},
    "changeMerchant": lambda _: {"name": "Ann"},
    "putFiscalProfile": lambda _: {"tin": "123456789"},
}


def _in_three(case: Case) -> int:
    sent = repr((case.method, case.path_parameters, case.query, case.body))
    return crc32(sent.encode(errors="replace")) % 3


def _newest(collection: str) -> str | None:
    return _made[collection][-1] if _made[collection] else KNOWN.get(collection)


@schemathesis.hook
def before_call(_context: Any, case: Case, _kwargs: Any) -> None:
    """Have two requests of three lead somewhere."""
    name = case.operation.definition.raw["operationId"]
    if _in_three(case) == 0:
        return
    if case.method == "POST":
        # A key that was used for another body would lead nowhere.
        case.headers["Idempotency-Key"] = f"key-{next(_numbers)}"
    if name in BODIES:
        case.body = BODIES[name](case)
    elif name == "listDeliveries":
        case.query = {}
    collection, _, rest = case.operation.path.partition("/{")
    named = _newest(collection)
    if name == "deleteCard":
        # The newest is left, to be charged.
        named = _made[collection].pop(0) if len(_made[collection]) > 1 else None
        _made[CONFIRM] = [each for each in _made[CONFIRM] if each != named]
    if rest and named is not None:
        case.path_parameters = {rest.partition("}")[0]: named}


@schemathesis.hook
def after_call(_context: Any, case: Case, response: schemathesis.Response) -> None:
    """Remember what was made."""
    path = case.operation.path
    if not path.startswith("/v1/") or response.status_code not in (200, 201, 202):
        return
    found = response.json().get("data")
    if response.status_code == 202:
        _made["/v1/commands"].append(found["commandId"])
    elif "id" in (found or ()) and (response.status_code == 201 or path == CONFIRM):
        _made[path].append(found["id"])
