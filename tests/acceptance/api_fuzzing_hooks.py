"""What schemathesis cannot guess: where a receiver listens, and that most lists are long without filters.

Whether a request is changed follows from what it is, so that a seed repeats a run.
"""

import os
from typing import Any
from zlib import crc32

import schemathesis

RECEIVER = "FUZZED_RECEIVER"
"""The variable that names the URL of the merchant's receiver."""


def _in_three(case: schemathesis.Case[Any]) -> int:
    sent = repr((case.method, case.path_parameters, case.query, case.body))
    return crc32(sent.encode(errors="replace")) % 3


@schemathesis.hook
def before_call(_context: Any, case: schemathesis.Case[Any], _kwargs: Any) -> None:
    """Have two requests of three lead somewhere."""
    name = case.operation.definition.raw["operationId"]
    if _in_three(case) == 0:
        return
    if name == "putWebhook":
        case.body = {"url": os.environ[RECEIVER]}
    elif name == "listDeliveries":
        case.query = {}
