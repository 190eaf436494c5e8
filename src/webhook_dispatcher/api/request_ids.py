"""The id by which support finds a request: the client's own, if it is fit to be logged, or one of ours."""

import re
import uuid

HEADER = "x-request-id"

_FIT = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def choose(given: str | None) -> str:
    """Return the client's id, or a new one."""
    return given if given is not None and _FIT.fullmatch(given) else str(uuid.uuid4())
