"""Charges that go through their life cycle, as a charge service would show them: JSON text, made up.

The text is deliberately varied where a careless middleman would rewrite it: spaces, the order of keys,
`1.10`, `1e3`, escaped and plain letters beyond ASCII.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any

# How often, and what happens one after the other.
LIVES: tuple[tuple[int, tuple[str, ...]], ...] = (
    (60, ("created", "succeeded", "split_completed", "fiscal_registered")),
    (12, ("created", "failed")),
    (8, ("created", "succeeded", "split_completed", "reversed")),
    (10, ("created", "succeeded", "split_failed")),
    (10, ("created", "succeeded", "split_completed", "fiscal_failed")),
)
CUSTOMERS = (
    "José Conceição",
    "Łucja Żak",
    "Ana \N{HOT BEVERAGE}",
    'Rob "Bobby" O\'Neil',
    "Zoë <zoe@merchant>",
)
RECIPIENTS = ("seller", "platform", "courier")
_VERBATIM = re.compile(r'"verbatim:([^"]*)"')


class Charge:
    """One charge; each step changes it."""

    def __init__(self, random: Random, merchant_id: str, opened_at: datetime) -> None:
        weights = [weight for weight, _ in LIVES]
        self._steps = list(random.choices([steps for _, steps in LIVES], weights)[0])
        self._ascii = random.random() < 0.5
        self._indent = random.choice((None, None, 2))
        amount = random.randrange(199, 500_000)
        self._object: dict[str, Any] = {
            "id": f"ch_{random.randbytes(10).hex()}",
            "object": "charge",
            "merchant": merchant_id,
            "amount": amount,
            "currency": random.choice(("EUR", "USD", "BRL")),
            "status": "created",
            "createdAt": opened_at.isoformat(timespec="milliseconds"),
            "customer": {"name": random.choice(CUSTOMERS), "risk": _verbatim(random.choice(("1e3", "0.50")))},
            "split": {"status": "pending", "recipients": _shares(random, amount)},
            "metadata": {"order": str(random.randrange(10**6)), "note": "line\nbreak / slash"},
        }

    @property
    def is_over(self) -> bool:
        """Tell whether nothing more happens to it."""
        return not self._steps

    def step(self) -> tuple[str, str]:
        """Let the next thing happen; return the event's type and the charge as JSON text."""
        step = self._steps.pop(0)
        self._object.update(_changes(step, self._object))
        text = json.dumps(self._object, ensure_ascii=self._ascii, indent=self._indent)
        return f"charge.{step}", _VERBATIM.sub(r"\1", text)


def _changes(step: str, charge: Mapping[str, Any]) -> dict[str, Any]:
    match step.split("_"):
        case "split", result:
            return {"split": {**charge["split"], "status": result}}
        case "fiscal", result:
            receipt = charge["id"].removeprefix("ch_").upper() if result == "registered" else None
            return {"fiscal": {"status": result, "receipt": receipt}}
        case "failed", *_:
            return {"status": "failed", "failure": {"code": "card_declined", "message": "Não autorizado"}}
        case _:
            return {"status": step}


def _shares(random: Random, amount: int) -> list[dict[str, Any]]:
    """Divide an amount among recipients, to the last minor unit."""
    names = RECIPIENTS[: random.randrange(1, len(RECIPIENTS) + 1)]
    parts = [amount // len(names)] * len(names)
    parts[0] += amount - sum(parts)
    return [
        {"recipient": name, "amount": part, "fee": {"percent": _verbatim("1.10"), "amount": part // 100}}
        for name, part in zip(names, parts, strict=True)
    ]


def _verbatim(number: str) -> str:
    """Mark a number that is to appear exactly so."""
    return f"verbatim:{number}"
