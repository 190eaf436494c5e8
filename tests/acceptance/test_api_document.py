"""The OpenAPI document, held against what the real program answers."""

import os
from pathlib import Path

import pytest

from tests.acceptance.api_fuzzing import fuzz
from tests.acceptance.api_merchant import Merchant, start_api
from tests.acceptance.installation import Installation
from tests.acceptance.test_api_operations import CHARGE, configured
from webhook_dispatcher.local.behaviour import Behaviour

EXAMPLES = int(os.environ.get("API_EXAMPLES", "6"))
"""Made-up requests for each operation."""
UNLIMITED = {"API_LIMITS": "client=0/PT1M address=0/PT1M card=0/PT15M key=0/PT1M"}


async def with_deliveries(installation: Installation, merchant: Merchant) -> None:
    """Have a delivery of each end."""
    await configured(installation, merchant, "m1")
    delivered = await installation.emit("m1", CHARGE)
    await installation.settled(delivered.id, "delivered", 1)
    installation.receiver.behave("m1", Behaviour(503))
    failed = await installation.emit("m1", CHARGE)
    await installation.settled(failed.id, "failed", 2)
    installation.receiver.behave("m1", Behaviour())


@pytest.mark.timeout(60 + 40 * EXAMPLES)
async def test_no_made_up_request_is_answered_outside_the_document(
    installation: Installation, tmp_path: Path
) -> None:
    await installation.start(RETRY_SCHEDULE="PT0.05S")
    api = await start_api(installation, **UNLIMITED)
    async with api.merchant("m1") as merchant:
        await with_deliveries(installation, merchant)
        assert merchant.token is not None
        found = await fuzz(tmp_path, api.port, merchant.token, EXAMPLES)
    print(found.said)
    assert (found.status, found.cases >= 10 * EXAMPLES) == (0, True), found.said
