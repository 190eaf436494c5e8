"""A refusal as clients of OAuth 2.0 read it, for who asks for a token by their form: no envelope.

It is told in English, since an `error_description` is ASCII. Source: RFC 6749 5.2.
"""

from collections.abc import Mapping

import orjson

from webhook_dispatcher.api.calls import ApiError
from webhook_dispatcher.api.catalogue import (
    CATALOGUE,
    INTERNAL,
    KEY_REVOKED,
    LIMIT_EXCEEDED,
    UNAVAILABLE,
    WRONG_CREDENTIALS,
    message,
)
from webhook_dispatcher.api.envelope import Envelope, Meta, headers_of
from webhook_dispatcher.domain.language import Language

ERRORS: Mapping[int, str] = {
    WRONG_CREDENTIALS: "invalid_client",
    KEY_REVOKED: "invalid_client",
    LIMIT_EXCEEDED: "temporarily_unavailable",
    UNAVAILABLE: "temporarily_unavailable",
    INTERNAL: "server_error",
}
"""What is none of these is an `invalid_request`. The last two values are 4.1.2.1's: 5.2 has none for them."""
OTHERWISE, UNSUPPORTED = "invalid_request", "unsupported_grant_type"
CHALLENGE = 'Basic realm="Partner API"'


def error(refused: ApiError, meta: Meta, language: Language) -> Envelope:
    """Say what was refused; fields that are not valid are 400."""
    code = refused.code if refused.code in CATALOGUE else INTERNAL
    entry = CATALOGUE[code]
    name, status = ERRORS.get(code, OTHERWISE), entry.status or 500
    description = message(code, language)
    if refused.details:
        detail = refused.details[0]
        if (detail.field, detail.kind) == ("grant_type", "choice"):
            name = UNSUPPORTED
        description = f"{detail.field}: {detail.message}"
    printable = "".join(each if " " <= each <= "~" and each not in '"\\' else "?" for each in description)
    body = orjson.dumps({"error": name, "error_description": printable})
    challenge = {"WWW-Authenticate": CHALLENGE} if status == 401 else {}
    headers = headers_of(meta, language) | challenge | {**refused.headers}
    return Envelope(400 if status == 422 else status, headers, body)
