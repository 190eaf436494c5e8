"""The errors: a published code with the status that fits, and what else the client should know.

Texts for people are not made here: the Partner API has them in three languages, by code. Only the `message`
of a field is ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """What is answered instead of a success. details: by field, for -1007 alone; extra: further fields."""

    code: int
    status: int
    details: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)

    def body(self) -> dict[str, object]:
        """Return what is answered, as JSON has it."""
        details = [{"field": name, "message": message} for name, message in self.details.items()]
        return {"code": self.code, **({"details": details} if details else {}), **self.extra}


class Refused(Exception):
    """Nothing was done, and this is why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem


def invalid(fields: Mapping[str, str]) -> Problem:
    """Say which fields are wrong: dotted paths with numeric indexes."""
    return Problem(-1007, 422, fields)


# Of the published table.
SHARES_DO_NOT_ADD_UP = Problem(-2006, 422)
EXTERNAL_ID_USED = Problem(-3004, 409)
DAY_CLOSED = Problem(-3006, 422)
CHANGED_MEANWHILE = Problem(-3007, 409)
RECIPIENT_NOT_APPROVED = Problem(-6004, 422)
CARD_NOT_ACTIVE = Problem(-8004, 422)
CARD_OF_ANOTHER = Problem(-8006, 403)
CARD_REJECTED = Problem(-9002, 422)
NO_FISCAL_PROFILE = Problem(-12004, 422)
KEY_MISSING = Problem(-11001, 400)
KEY_REUSED = Problem(-11002, 422)
STILL_RUNNING = Problem(-11003, 409)

# Of the published ranges, with a meaning that this service gave them.
CHARGE_NOT_FOUND = Problem(-3001, 404)
NOT_REVERSIBLE = Problem(-3002, 409)
MERCHANT_NOT_FOUND = Problem(-5001, 404)
RECIPIENT_NOT_FOUND = Problem(-6001, 404)
CUSTOMER_NOT_FOUND = Problem(-7002, 404)
CARD_NOT_FOUND = Problem(-8001, 404)
WRONG_CODE = Problem(-9003, 422)


def declined(reason: str) -> Problem:
    """Say why the bank declined."""
    return Problem(-9004, 422, extra={"failureReason": reason})
