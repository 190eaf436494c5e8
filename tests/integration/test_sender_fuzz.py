"""A short run of `make fuzz` over answers."""

import asyncio

import pytest

from tests.fuzz.responses import fuzz_responses
from tests.integration.senders import SENDERS
from webhook_dispatcher.domain.verdict import Outcome


@pytest.mark.parametrize("kind", SENDERS)
async def test_mutated_answers_end_in_outcomes(kind: str) -> None:
    # It would take three times as long.
    asyncio.get_running_loop().set_debug(False)
    outcomes = await fuzz_responses(2_000, seed=20261121, kind=kind)
    assert outcomes.total() == 2_000
    assert {Outcome.DELIVERED, Outcome.STATUS, Outcome.BAD_RESPONSE, Outcome.DISCONNECTED} <= outcomes.keys()
