"""What a body must hold.

All that is wrong is said at once, field by field, as paths such as `recipients.0.share`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from examples.charge_service.problems import Refused, invalid

Rule = Callable[[Any], bool]

MAX_RECIPIENTS = 50
A_TEXT = "must be 1 to 128 printable characters"


def card_number(body: Mapping[str, Any]) -> str:
    """Read what binds a card."""
    check(body, {"number": (_has_digits(16), "must have 16 digits")})
    return str(body["number"])


def confirmation_code(body: Mapping[str, Any]) -> str:
    """Read what confirms a card."""
    check(body, {"code": (_is_text, A_TEXT)})
    return str(body["code"])


def version(body: Mapping[str, Any]) -> int | None:
    """Read what reverses a charge."""
    check(body, {"version": (_is_absent_or(_is_positive), "must be a whole number above 0")})
    found: int | None = body.get("version")
    return found


def named(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read a name, and nothing else."""
    check(body, {"name": (_is_text, A_TEXT)})
    return body


def new_customer(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read a customer that is to be added."""
    check(body, {"externalUserId": (_is_text, A_TEXT), "name": (_is_text, A_TEXT)})
    return body


def fiscal_profile(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read by which number receipts are issued."""
    check(body, {"tin": (_has_digits(9), "must have 9 digits")})
    return body


def new_charge(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read a charge that is to be made."""
    rules: dict[str, tuple[Rule, str]] = {
        "externalId": (_is_text, A_TEXT),
        "cardId": (_is_text, A_TEXT),
        "amount": (_is_positive, "must be a whole number above 0"),
        "currency": (lambda value: value in ("UZS", "USD", "EUR"), "must be UZS, USD or EUR"),
        "recipients": (_is_list, f"must be a list of 1 to {MAX_RECIPIENTS}"),
        "fiscal": (_is_absent_or(lambda value: isinstance(value, bool)), "must be true or false"),
    }
    check(body, rules, _faults_of_recipients(body.get("recipients")))
    return {"fiscal": False, **body}


def check(
    body: Mapping[str, Any], rules: Mapping[str, tuple[Rule, str]], others: Mapping[str, str] | None = None
) -> None:
    """Refuse a body with fields that break their rules, or that nobody knows."""
    faults = {name: what for name, (rule, what) in rules.items() if not rule(body.get(name))}
    faults |= dict.fromkeys(body.keys() - rules.keys(), "is not a known field")
    if faults := {**faults, **(others or {})}:
        raise Refused(invalid(faults))


def _faults_of_recipients(recipients: Any) -> dict[str, str]:
    faults = {}
    for index, recipient in enumerate(recipients if _is_list(recipients) else ()):
        found = recipient if isinstance(recipient, dict) else {}
        if not _is_text(found.get("id")):
            faults[f"recipients.{index}.id"] = A_TEXT
        if not _is_positive(found.get("share")):
            faults[f"recipients.{index}.share"] = "must not be less than 1"
    return faults


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 128 and value.isprintable()


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MAX_RECIPIENTS


def _has_digits(count: int) -> Rule:
    return lambda value: (
        isinstance(value, str) and len(value) == count and value.isascii() and value.isdigit()
    )


def _is_absent_or(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)
