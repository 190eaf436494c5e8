"""Schemathesis over the OpenAPI document of a running Partner API, as a program of its own."""

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.api_merchant import Merchant, PartnerApi

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
PHASES = "examples,coverage,fuzzing,stateful"
RECEIVED_BY = "m1"
"""The merchant whose receiver it may name."""
ROOT = Path(__file__).parents[2]
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@dataclass(frozen=True)
class Findings:
    """What it found. cases: requests that were made up; said: all that it wrote."""

    status: int
    cases: int
    said: str


async def fuzz(api: PartnerApi, merchant: Merchant, examples: int, *options: str) -> Findings:
    """Make up requests from the document, send them, and compare each answer with it."""
    process = await asyncio.create_subprocess_exec(
        str(SCHEMATHESIS),
        "run",
        f"{merchant.base}/openapi.json",
        f"--header=Authorization: Bearer {merchant.token}",
        f"--checks={','.join(CHECKS)}",
        f"--phases={PHASES}",
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
            "FUZZED_RECEIVER": api.installation.receiver.url(RECEIVED_BY),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    written, _ = await process.communicate()
    said = written.decode()
    counted = re.search(r"Test cases:\s*([\d,]+) generated", said) or re.search(r"([\d,]+) generated", said)
    assert process.returncode is not None
    return Findings(process.returncode, int(counted[1].replace(",", "")) if counted else 0, said)
