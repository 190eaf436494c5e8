"""The bodies that everybody who is measured posts: a charge as the charge service shows it, of a given size.

`body` is the object alone, as a producer writes it. `posted` is what a merchant receives: the same text in
the envelope that webhook-dispatcher renders, so that the rivals put the same bytes on the wire.
Source: contract 1.
"""

import json
from functools import cache
from random import Random
from uuid import UUID

EVENT_TYPE = "charge.succeeded"
CREATED_AT = "2026-11-20T08:15:30.123Z"
DIFFERENT = 100
"""How many objects differ; then they repeat. Compression finds no two alike beside each other."""
SMALLEST = 620
"""Bytes that are enough for each of them."""
_NAMES = ("Ana Souza", "José Conceição", "Łucja Żak", "Zoë Müller", "Rob O'Neil")
_WORDS = ("order", "invoice", "ticket", "refund", "parcel", "seller", "courier", "platform", "deposit")
_END = '"}}'


def body(size: int, number: int) -> str:
    """Return a charge as JSON text of exactly `size` bytes in UTF-8.

    Raises ValueError if that is less than the charge takes; SMALLEST is enough for all.
    """
    return _body(size, number % DIFFERENT)


def posted(event_id: UUID, text: str) -> bytes:
    """Return the body of the request: the envelope around an object's text."""
    head = f'{{"id":"{event_id}","type":"{EVENT_TYPE}","createdAt":"{CREATED_AT}"'
    return f'{head},"data":{{"object":{text}}}}}'.encode()


@cache
def _body(size: int, number: int) -> str:
    random = Random(number)
    text = json.dumps(_charge(random), ensure_ascii=False, separators=(",", ":"))
    missing = size - len(text.encode())
    if missing < 0:
        raise ValueError(f"a charge takes {size - missing} bytes; {size} are too few")
    note: list[str] = []
    length = 0
    while length < missing:
        note.append(f"{random.choice(_WORDS)}-{random.randrange(10**6)} ")
        length += len(note[-1])
    return text.removesuffix(_END) + "".join(note)[:missing] + _END


def _charge(random: Random) -> dict[str, object]:
    amount = random.randrange(200, 500_000)
    return {
        "id": f"ch_{random.randbytes(10).hex()}",
        "object": "charge",
        "amount": amount,
        "currency": random.choice(("EUR", "USD", "BRL")),
        "status": "succeeded",
        "createdAt": "2026-11-20T08:15:29.870Z",
        "customer": {
            "id": f"cus_{random.randbytes(8).hex()}",
            "name": random.choice(_NAMES),
            "email": f"customer{random.randrange(10**5)}@example.com",
        },
        "paymentMethod": {
            "type": "card",
            "brand": random.choice(("visa", "mastercard", "elo")),
            "last4": f"{random.randrange(10**4):04}",
            "expires": "2029-07",
        },
        "split": {
            "status": "completed",
            "recipients": [
                {"recipient": f"acc_{random.randbytes(6).hex()}", "amount": share, "fee": share // 100}
                for share in (amount // 2, amount - amount // 2)
            ],
        },
        "fiscal": {"status": "registered", "receipt": random.randbytes(12).hex().upper()},
        "metadata": {"order": str(random.randrange(10**6)), "note": ""},
    }
