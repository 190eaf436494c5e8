"""Schemathesis over the OpenAPI document of a running Partner API, as a program of its own."""

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
PHASES = "examples,coverage,fuzzing,stateful"
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@dataclass(frozen=True)
class Findings:
    """What it found. cases: requests that were made up; said: all that it wrote."""

    status: int
    cases: int
    said: str


async def fuzz(
    folder: Path, port: int, token: str, examples: int, *options: str, phases: str = PHASES
) -> Findings:
    """Make up requests from the document, send them, and compare each answer with it."""
    process = await asyncio.create_subprocess_exec(
        str(SCHEMATHESIS),
        "run",
        f"http://127.0.0.1:{port}/openapi.json",
        f"--header=Authorization: Bearer {token}",
        f"--checks={','.join(CHECKS)}",
        f"--phases={phases}",
        f"--max-examples={examples}",
        "--suppress-health-check=all",
        "--warnings=off",
        "--continue-on-failure",
        "--no-color",
        *options,
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    written, _ = await process.communicate()
    said = written.decode()
    counted = re.search(r"Test cases:\s*([\d,]+) generated", said) or re.search(r"([\d,]+) generated", said)
    assert process.returncode is not None
    return Findings(process.returncode, int(counted[1].replace(",", "")) if counted else 0, said)
