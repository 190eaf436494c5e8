"""A rival of one's own for the benchmark of servers: Outpost's API, and a worker that forwards.

Killed, it begins again with what was published last, and sends one event once more.
"""

import asyncio
import threading
import time
from typing import Any

from aiohttp import ClientSession, web


class StandIn:
    """The server's state; the worker can be ended and started from another thread."""

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._owed: list[tuple[str, Any]] = []
        self._sent: list[tuple[str, Any]] = []
        self._works = threading.Event()
        self._was_killed = False
        self.start_worker()

    def application(self) -> web.Application:
        """Return its API."""
        app = web.Application()
        app.router.add_put("/api/v1/tenants/{tenant}", self._add)
        app.router.add_post("/api/v1/tenants/{tenant}/destinations", self._add)
        app.router.add_post("/api/v1/publish", self._publish)
        return app

    def end_worker(self, *, by_kill: bool) -> None:
        """Send nothing more."""
        self._works.clear()
        self._was_killed = by_kill

    def start_worker(self) -> None:
        """Send what is owed, and what comes."""
        self._works.set()

    def cpu_seconds(self) -> float:
        """Return what this process has used."""
        return time.process_time()

    async def _add(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer benchmark"
        if "config" in (said := await request.json()):
            self._urls[request.match_info["tenant"]] = said["config"]["url"]
        return web.json_response({}, status=201)

    async def _publish(self, request: web.Request) -> web.StreamResponse:
        said = await request.json()
        self._owed.append((said["tenant_id"], said["data"]))
        # In chunks, as some servers answer.
        answer = web.StreamResponse(status=202)
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        await answer.write(b"{}")
        await answer.write_eof()
        return answer

    async def work(self, session: ClientSession) -> None:
        """Forward until cancelled."""
        while True:
            if not self._works.is_set() or not self._owed:
                await asyncio.sleep(0.005)
                continue
            if self._was_killed:
                self._was_killed = False
                self._owed = [*self._sent[-1:], *reversed(self._owed)]
            event = self._owed.pop(0)
            self._sent.append(event)
            async with session.post(self._urls[event[0]], json=event[1]):
                pass
