"""People who click through the console: each signs in by a code and goes round its pages, with pauses.

Real requests over kept connections. A line on standard input begins what counts; what is told in the end is
how long each kind of page took. Browsers are on machines of their own: here they let others go first.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import sys
import time
from collections import defaultdict

import aiohttp

from webhook_dispatcher.app.machine import lower_priority

FROM_HERE = {"Sec-Fetch-Site": "same-origin"}
MERCHANT = re.compile(r'href="(/merchants/m-?[0-9]+)"')
DELIVERY = re.compile(r'href="(/deliveries/[0-9a-f]{8}-[0-9a-f-]{27})"')
PATIENCE = aiohttp.ClientTimeout(total=30)


class Person:
    """One of them, in a browser of their own. took: milliseconds, by the kind of page."""

    def __init__(self, session: aiohttp.ClientSession, pause: float) -> None:
        self._session = session
        self._pause = pause
        self.took: defaultdict[str, list[float]] = defaultdict(list)

    async def sign_in(self, code: str) -> None:
        """Begin a session."""
        async with self._session.post(
            "/sign-in", data={"code": code}, headers=FROM_HERE, allow_redirects=False
        ) as response:
            if response.status != 303:
                raise SystemExit(f"the console did not let a person in: {response.status}")

    async def go_round(self) -> None:
        """Look at each page once, and at a merchant and a delivery of those that are listed."""
        await self._open("overview", "/")
        merchants = MERCHANT.findall(await self._open("merchants", "/merchants"))
        await self._open("failing", "/merchants?order=failing")
        await self._open("merchant", random.choice(merchants))
        deliveries = DELIVERY.findall(await self._open("deliveries", "/deliveries"))
        await self._open("delivery", random.choice(deliveries))
        await self._open("health", "/health")
        await self._open("account", "/account")

    async def _open(self, kind: str, path: str) -> str:
        started = time.monotonic()
        async with self._session.get(path, allow_redirects=False) as response:
            text = await response.text()
            if response.status != 200:
                raise SystemExit(f"{path}: {response.status}")
        self.took[kind].append(1000 * (time.monotonic() - started))
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.5))
        return text


async def click(options: argparse.Namespace) -> None:
    """Let them in, wait to be let go, let them click, and tell."""
    sessions = [
        aiohttp.ClientSession(
            f"http://127.0.0.1:{options.port}", cookie_jar=aiohttp.CookieJar(unsafe=True), timeout=PATIENCE
        )
        for _ in options.code
    ]
    people = [Person(session, options.pause) for session in sessions]
    try:
        for person, code in zip(people, options.code, strict=True):
            await person.sign_in(code)
            await person.go_round()
            person.took.clear()
        print(json.dumps({"warm": True}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        ends = time.monotonic() + options.seconds

        async def keep_on(person: Person) -> None:
            while time.monotonic() < ends:
                await person.go_round()

        await asyncio.gather(*map(keep_on, people))
    finally:
        for session in sessions:
            await session.close()
    took: defaultdict[str, list[float]] = defaultdict(list)
    for person in people:
        for kind, times in person.took.items():
            took[kind] += times
    medians = {kind: statistics.median(times) for kind, times in took.items()}
    print(json.dumps({"pages": sum(map(len, took.values())), "median ms": medians}), flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--code", action="append", required=True, help="a person's; may be repeated")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two pages, about")
    options = parser.parse_args()
    lower_priority()
    asyncio.run(click(options))


if __name__ == "__main__":
    main()
