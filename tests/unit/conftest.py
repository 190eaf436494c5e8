"""What several modules of unit tests begin with."""

import pytest

from tests.unit.chaos_evidence import EvidenceBuilder, calm
from tests.unit.fakes.clock import FakeClock


@pytest.fixture
def builder() -> EvidenceBuilder:
    return calm()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
