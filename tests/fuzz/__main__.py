"""`make fuzz`: many mutated answers and URLs, with a seed that is printed first."""

import argparse
import asyncio
import secrets
import time

import uvloop

from tests.fuzz.responses import fuzz_responses
from tests.fuzz.urls import fuzz_urls
from tests.integration.senders import SENDERS


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--sender", choices=SENDERS, default="llhttp")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    start = time.monotonic()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcomes = runner.run(fuzz_responses(asked.answers, asked.seed, asked.sender))
    middle = time.monotonic()
    print(f"{outcomes.total()} answers in {middle - start:.0f} s: {dict(outcomes.most_common())}", flush=True)
    verdicts = fuzz_urls(asked.urls, asked.seed)
    print(f"{verdicts.total()} URLs in {time.monotonic() - middle:.0f} s: {dict(verdicts.most_common())}")


if __name__ == "__main__":
    main()
