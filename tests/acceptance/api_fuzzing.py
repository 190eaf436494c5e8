"""Schemathesis over the OpenAPI document of a running Partner API, as a program of its own."""

import asyncio
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.api_merchant import Merchant, PartnerApi
from tests.acceptance.processes import http_get

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
QUICK = ("examples", "coverage")
BY_CHANCE, ALONG_LINKS = (*QUICK, "fuzzing"), ("stateful",)
"""What the quick ones send is the same each time."""
RECEIVER, CLIENT_ID, CLIENT_SECRET = "FUZZED_RECEIVER", "FUZZED_CLIENT_ID", "FUZZED_CLIENT_SECRET"
"""The variables that name the URL of the merchant's receiver, and its credentials."""
MERCHANT = "m1"
"""Who asks."""
ROOT = Path(__file__).parents[2]
CONFIGURATION = """
[phases.stateful.generation]
mode = "positive"
max-examples = {scenarios}

[phases.stateful.inference]
algorithms = []
"""
"""The document's links are followed from what succeeded; what is wrong on purpose, the other phases send."""
MIN_SCENARIOS = 30
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@dataclass(frozen=True)
class Findings:
    """What it found. cases: requests that were made up; links: how many of the document's were followed.

    said: all that it wrote; succeeded: the operations of which a request was answered with 2xx.
    """

    status: int
    cases: int
    links: int
    said: str
    succeeded: frozenset[str]


async def fuzz(
    api: PartnerApi, merchant: Merchant, examples: int, *options: str, phases: Iterable[str]
) -> Findings:
    """Make up requests from the document, send them, and compare each answer with it."""
    before = await _successes(api)
    configuration = CONFIGURATION.format(scenarios=max(MIN_SCENARIOS, examples))
    (api.installation.folder / "schemathesis.toml").write_text(configuration)
    process = await asyncio.create_subprocess_exec(
        str(SCHEMATHESIS),
        "run",
        f"{merchant.base}/openapi.json",
        f"--header=Authorization: Bearer {merchant.token}",
        f"--checks={','.join(CHECKS)}",
        f"--phases={','.join(phases)}",
        f"--max-examples={examples}",
        "--suppress-health-check=all",
        "--warnings=off",
        "--continue-on-failure",
        "--no-color",
        *options,
        cwd=api.installation.folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.acceptance.api_fuzzing_hooks",
            RECEIVER: api.installation.receiver.url(MERCHANT),
            CLIENT_ID: merchant.client_id,
            CLIENT_SECRET: merchant.client_secret,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    written, _ = await process.communicate()
    said = written.decode()
    cases = _counted((r"Test cases:\s*([\d,]+) generated", r"([\d,]+) generated"), said)
    links = _counted((r"API Links:\s*([\d,]+) covered / [\d,]+ selected / [\d,]+ total\s*\n",), said)
    assert process.returncode is not None
    succeeded = {name for name, _ in (await _successes(api) - before)}
    return Findings(process.returncode, cases, links, said, frozenset(succeeded))


def _counted(patterns: Iterable[str], said: str) -> int:
    """Read a figure: by the first of the patterns that is there; 0 where none is."""
    found = next(filter(None, (re.search(pattern, said) for pattern in patterns)), None)
    return int(found[1].replace(",", "")) if found else 0


async def _successes(api: PartnerApi) -> frozenset[tuple[str, str]]:
    """Return which operations were answered with 2xx so far, and how often."""
    _, text = await http_get(api.ops_port, "/metrics")
    counted = r'webhook_api_requests_total{operation="(\w+)",status="2\d\d"} (\S+)'
    return frozenset(re.findall(counted, text))
