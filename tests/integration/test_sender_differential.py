"""Our senders beside h11: answers, cut at random, mean the same, or a table says why.

What is compared: the status, whether the connection is kept, and whether a request is sent again.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from random import Random

import pytest
import pytest_asyncio

from tests.fuzz.mutation import mutated
from tests.fuzz.responses import CORPUS, TOKENS
from tests.integration.differential.answers import ANSWERS
from tests.integration.differential.clients import Asking, asking, cut, read_by_h11
from tests.integration.differential.differences import DIFFERENCES, unexplained
from tests.integration.senders import SENDERS

IS_LONG = "MODEL_EXAMPLES" in os.environ
CUTS, MUTATIONS = (4, 600) if IS_LONG else (2, 200)
SEED, AT_ONCE = 20261122, 100


@pytest.fixture(scope="module", params=SENDERS)
def kind(request: pytest.FixtureRequest) -> str:
    which: str = request.param
    return which


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def asked(kind: str) -> AsyncIterator[Asking]:
    # A busy machine is not to decide whether the end of a body came in time.
    with pytest.MonkeyPatch.context() as patch:
        for module in ("connection", "aiohttp_sender"):
            patch.setattr(f"webhook_dispatcher.transport.{module}._DRAIN_SECONDS", 0.3)
        asyncio.get_running_loop().set_debug(False)  # it would slow hundreds of answers down
        async with asking(kind) as asked:
            yield asked


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ANSWERS)
async def test_answer_means_the_same_to_both(name: str, kind: str, asked: Asking) -> None:
    answer, random = ANSWERS[name], Random(name)

    async def compare(pieces: Sequence[bytes]) -> None:
        h11 = read_by_h11(pieces)
        # One that does not end is ended, for want of an answer to wait for.
        ours = await asked.read(pieces, closes=h11.status is None)
        row = DIFFERENCES.get(name)
        expected = (row.ours, row.h11) if row else (str(h11), str(h11))
        if row and row.aiohttp and kind == "aiohttp":
            expected = row.aiohttp, row.h11
        assert (str(ours), str(h11)) == expected, f"{name}, cut into {pieces}"

    await asyncio.gather(*[compare(pieces) for pieces in _cuts(answer, random)])


def _cuts(answer: bytes, random: Random) -> list[list[bytes]]:
    return [[answer], *(cut(answer, random) for _ in range(CUTS))]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ANSWERS)
async def test_request_is_sent_again_only_if_nothing_was_answered(name: str, asked: Asking) -> None:
    """On a kept connection that ends there. A 408 crossed the request: it is no answer (RFC 9110, 15.5.9)."""
    answer, random = ANSWERS[name], Random(name)

    async def compare(part: bytes) -> None:
        pieces = cut(part, random)
        h11 = read_by_h11(pieces)
        assert await asked.is_resent(pieces) is (h11.is_silence or h11.status == 408), pieces

    parts = (answer, answer[: random.randrange(len(answer) + 1)], answer[:1])
    await asyncio.gather(*[compare(part) for part in parts])


@pytest.mark.asyncio(loop_scope="module")
async def test_mutated_answers_are_read_as_h11_reads_them(asked: Asking) -> None:
    random = Random(SEED)
    corpus = [*CORPUS, *(answer for name, answer in ANSWERS.items() if name not in DIFFERENCES)]
    answers = [mutated(corpus, TOKENS, random) for _ in range(MUTATIONS)]

    async def compare(answer: bytes) -> str | None:
        pieces = cut(answer, random)
        h11 = read_by_h11(pieces)
        ours = await asked.read(pieces, closes=h11.status is None)
        wrong = unexplained(answer, ours, h11)
        return wrong and f"{wrong}: {ours} (h11: {h11}): {answer[:300]!r}"

    seen = []
    for start in range(0, MUTATIONS, AT_ONCE):
        seen += await asyncio.gather(*[compare(answer) for answer in answers[start : start + AT_ONCE]])
    assert [wrong for wrong in seen if wrong] == []


def test_every_difference_is_one() -> None:
    assert DIFFERENCES.keys() <= ANSWERS.keys()
    for name, row in DIFFERENCES.items():
        assert len({row.ours, row.aiohttp or row.ours, row.h11}) > 1, name
