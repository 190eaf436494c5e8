"""What receivers write into their answers is recorded as an outcome, and is found nowhere afterwards."""

from dataclasses import dataclass

import pytest

from tests.acceptance.installation import Installation
from webhook_dispatcher.local.behaviour import Behaviour

MARK = b"hostile"


@dataclass(frozen=True)
class Hostile:
    answer: bytes
    status: int | None
    outcome: str


def line(text: bytes, status: int | None, outcome: str = "status") -> Hostile:
    return Hostile(b"HTTP/1.1 " + text + b"\r\nContent-Length: 0\r\n\r\n", status, outcome)


def head(text: bytes, status: int | None, outcome: str) -> Hostile:
    return Hostile(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + text + b"\r\n\r\n", status, outcome)


# fmt: off
ANSWERS = [
    line(b"500 hos\0tile hostile", 500),
    line(b"200 hostile\0", 200, "delivered"),
    line(b"500 hostile caf\xe9 \xff\xfe\x80", 500),
    line(b"500 hostile \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x80\xae", 500),  # a surrogate, too high, turned
    line(b"500 hostile\r\nHTTP/1.1 200 OK", None, "bad_response"),
    line(b"500 No\r\nX: hostile\r\n\r\nHTTP/1.1 200 hostile", 500),
    line(b"500 hostile \x1b[2J\x1b]0;hostile\x07 %s %n {0} ${jndi:ldap://hostile/}", 500),
    line(b"500 '; DROP TABLE webhook.outbox; -- hostile \\u0000", 500),
    head(b"X: hostile\0", None, "bad_response"),
    head(b"X: hostile caf\xe9 \xff", 200, "delivered"),
    head(b"hos\xfftile: 1", None, "bad_response"),
    head(b"hostile", None, "bad_response"),
    Hostile(b"\0" * 100 + b"hostile\r\n\r\n", None, "bad_response"),
    Hostile(b"\xff\xfehostile\r\n\r\n", None, "bad_response"),
]
# fmt: on

TABLES = """
    SELECT c.oid::regclass::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'webhook' AND c.relkind = 'r'
"""


async def everything_stored(installation: Installation) -> str:
    """Return each row of each table as text."""
    tables = [row[0] for row in await installation.owner.fetch(TABLES)]
    texts = []
    for table in tables:
        texts += [row[0] for row in await installation.owner.fetch(f"SELECT t::text FROM {table} AS t")]
    assert texts
    return "\n".join(texts)


@pytest.mark.parametrize("sender", ["llhttp", "aiohttp"])
async def test_hostile_answers_are_recorded_and_nothing_of_them_is_kept(
    installation: Installation, sender: str
) -> None:
    merchants = {f"m{number}": answer for number, answer in enumerate(ANSWERS)}
    await installation.configure(*merchants)
    for merchant_id, hostile in merchants.items():
        installation.receiver.behave(merchant_id, Behaviour(raw=hostile.answer), Behaviour())
    first = {merchant_id: await installation.emit(merchant_id) for merchant_id in merchants}
    second = {merchant_id: await installation.emit(merchant_id) for merchant_id in merchants}
    daemon = await installation.start(SENDER=sender)
    for event in second.values():  # the lane has gone on
        await installation.settled(event.id, "delivered", 1)

    for merchant_id, hostile in merchants.items():
        state = "delivered" if hostile.outcome == "delivered" else "pending_retry"
        row = await installation.settled(first[merchant_id].id, state, 1)
        assert (row["last_status"], row["last_outcome"]) == (hostile.status, hostile.outcome), hostile
        [attempt] = await installation.attempts(first[merchant_id].id)
        assert (attempt["status"], attempt["outcome"]) == (hostile.status, hostile.outcome), hostile

    _, metrics = await daemon.asked("/metrics")
    errors = [text for text in metrics.splitlines() if text.startswith("webhook_database_errors")]
    assert [text for text in errors if "_total" in text and not text.endswith(" 0.0")] == []
    daemon.terminate()
    assert await daemon.ended() == 0
    log = daemon.log_file.read_bytes()
    kept = (await everything_stored(installation)).encode(errors="surrogateescape")
    for place in (log, kept, metrics.encode()):
        assert MARK not in place.lower()
        assert b"tile" not in place
