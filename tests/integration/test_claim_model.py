"""The claim protocol under interleavings that nobody thought of: a state machine over real statements.

Hypothesis chooses what happens; the facts are judged after every step (claim_facts), and at the end one new
daemon has to finish everything. MODEL_EXAMPLES makes it try more; a failure prints how to repeat it.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from functools import partial
from typing import cast

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.integration.claim_model.actions import ACTIONS
from tests.integration.claim_model.model import ClaimModel
from tests.servers.database import Database
from webhook_dispatcher.dispatch import pace, worker

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "12"))
STEPS = 40


class ClaimMachine(RuleBasedStateMachine):
    """Draws what happens; to whom and which of several ways are numbers that always fit."""

    def __init__(self, model: ClaimModel, runner: asyncio.Runner) -> None:
        super().__init__()
        self.model, self._runner = model, runner

    @initialize()
    def begin(self) -> None:
        self._runner.run(self.model.begin())

    @rule(
        what=st.sampled_from([name for name, (weight, _) in ACTIONS.items() for _ in range(weight)]),
        who=st.integers(0, 2),
        which=st.integers(0, 11),
        way=st.integers(0, 3),
    )
    def happen(self, what: str, who: int, which: int, way: int) -> None:
        async def act() -> None:
            self.model.arrive()
            await ACTIONS[what][1](self.model, who, which, way)
            self.model.facts.check(await self.model.tables(), self.model.daemons)

        self._runner.run(act())

    def teardown(self) -> None:
        for name in sorted(self.model.facts.seen.notes):
            event(name)
        self._runner.run(self.model.finish())


@pytest.mark.timeout(300 + 10 * EXAMPLES)
def test_nothing_is_lost_repeated_or_out_of_order_whatever_happens(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sessions by charge wait without a timer: the model moves the clock, and wakes them.
    monkeypatch.setattr(worker, "sleep", lambda seconds, wake: pace.sleep(None, wake))
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            model = ClaimModel(database, stack)
            runner.run(model.prepare())
            run_state_machine_as_test(
                cast(type[RuleBasedStateMachine], partial(ClaimMachine, model, runner)),
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    print_blob=True,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(stack.aclose())
