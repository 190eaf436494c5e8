"""The same Idempotency-Key, the same answer, and no second effect.

What is kept is kept before it is answered: a connection that breaks then changes nothing, and the repeat gets
what the first one would have got. In a real service the key and the answer are rows that commit with the
effect.

A refusal that did nothing and that the client can mend (a field that is not valid, too many requests) does
not bind the key: the Partner API lets the client use it again for the mended request.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from examples.charge_service.problems import KEY_REUSED, STILL_RUNNING, Refused


@dataclass(frozen=True)
class Answer:
    """What is answered, and kept."""

    status: int
    text: str


@dataclass
class Once:
    """The requests that had a key, by key; their answers, or None while they run."""

    _hashes: dict[str, bytes] = field(default_factory=dict)
    _answers: dict[str, Answer | None] = field(default_factory=dict)

    async def answer(
        self, key: str, body: bytes, act: Callable[[], Awaitable[Answer]], may_keep: Callable[[Answer], bool]
    ) -> Answer:
        """Act, or return what was answered when this was asked for before."""
        digest = hashlib.sha256(body).digest()
        if self._hashes.setdefault(key, digest) != digest:
            raise Refused(KEY_REUSED)
        if key in self._answers:
            return _finished(self._answers[key])
        self._answers[key] = None
        answer = None
        try:
            answer = await act()
        finally:
            self._settle(key, answer if answer is not None and may_keep(answer) else None)
        return answer

    def _settle(self, key: str, answer: Answer | None) -> None:
        if answer is None:
            del self._answers[key], self._hashes[key]
        else:
            self._answers[key] = answer


def _finished(answer: Answer | None) -> Answer:
    if answer is None:
        raise Refused(STILL_RUNNING)
    return answer
