"""`python -m benchmarks.servers`: the phases, on a stand-in for a rival, and on this daemon."""

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml
from aiohttp import ClientSession, web

from benchmarks.rig import Rig
from benchmarks.servers import convoy, hook0, outpost, svix
from benchmarks.servers.__main__ import RIVALS
from benchmarks.servers.measure import HEAD, Plan, Traffic, measure
from benchmarks.servers.ourselves import Ourselves
from benchmarks.servers.server import COMPOSE, Rival
from tests import servers
from tests.acceptance.stand_in_rival import StandIn
from webhook_dispatcher.local.arrivals import Arrival, Signature

PLAN = Plan(events=100, merchants=25, publishers=4, rate=20, seconds=1, kills=1)


PATHS = {
    "convoy": [
        "/api/v1/projects",
        "/api/v1/projects/project/endpoints",
        "/api/v1/projects/project/subscriptions",
        "/api/v1/projects/project/events",
    ],
    "hook0": [
        "/api/v1/register",
        "/api/v1/service_token",
        "/api/v1/applications",
        "/api/v1/event_types",
        "/api/v1/subscriptions",
        "/api/v1/event",
    ],
}
NAMED = {
    "convoy": {"endpoint_id": "endpoint", "data": {"number": 7}},
    "hook0": {"application_id": "application", "labels": {"merchant": "m-1"}, "payload": '{"number": 7}'},
}


def arrival(merchant: str, number: int, at: float, ended_at: float | None = None) -> Arrival:
    body = b'{"number": %d, "object": "charge"}' % number
    return Arrival(merchant, "", "", 1, at, 1, Signature.UNCHECKED, {}, body, ended_at)


def figures(row: str) -> list[float]:
    """Return the figures of a row, which has as many cells as the table's head."""
    cells = row.split(" | ")
    assert len(cells) == len(HEAD[0].split(" | "))
    return [float(figure) for figure in re.findall(r"[\d.]+", " ".join(cells[1:]).replace(",", ""))]


def test_first_arrivals_alone_are_held_against_their_order() -> None:
    traffic = Traffic()
    for number, (merchant, event) in enumerate([("a", 1), ("b", 2), ("a", 4), ("a", 1), ("a", 3), ("b", 5)]):
        traffic.take(arrival(merchant, event, float(number)))
        traffic.take(arrival(merchant, event, float(number), ended_at=9.0))
    assert traffic.out_of_order() == 1
    assert len(traffic.arrived) - len(traffic.arrived_at) == 1


@pytest.mark.parametrize("rival", [convoy.Convoy, hook0.Hook0, outpost.Outpost, svix.Svix])
def test_each_rival_has_a_worker_of_its_own_in_a_pinned_version(rival: type[Rival]) -> None:
    services = yaml.safe_load(Path(COMPOSE[-1]).read_text(encoding="utf-8"))["services"]
    name = rival.name.lower()
    api, worker = services[f"{name}-api"], services[f"{name}-worker"]
    assert re.fullmatch(rf".+:v?{re.escape(rival.version)}", api["image"])
    assert worker != api
    assert worker["profiles"] == [name]
    assert name in RIVALS


ANSWER = {
    "data": {"uid": "endpoint", "project": {"uid": "project"}, "api_key": {"key": "a-key"}},
    "organization_id": "organization",
    "biscuit": "a-key",
    "application_id": "application",
    "event_type_name": "charge.order.created",
}
"""Whatever either rival reads out of what it has made."""


@pytest.mark.parametrize("name", ["convoy", "hook0"])
async def test_what_is_made_for_a_rival_is_named_in_its_events(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convoy, "REFRESH", 0)
    monkeypatch.setenv("CONVOY_BOOTSTRAP", '{"organisation_id": "organisation", "api_key": "first"}')
    asked: list[tuple[str, str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.headers["Authorization"], request.path, await request.text()))
        return web.json_response(ANSWER, status=201)

    runner = web.AppRunner(app := web.Application())
    app.router.add_post("/{path:.+}", answer)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    rival = (
        convoy.Convoy(StandIn(), *convoy.bootstrapped(), port)
        if name == "convoy"
        else hook0.Hook0(StandIn(), hook0.HEADERS, port)
    )
    await rival.register({"m-1": "http://127.0.0.1:1/m-1"})
    async with AsyncExitStack() as stack:
        await (await rival.connect(stack))("m-1", '{"number": 7}')
    await runner.cleanup()
    assert [path for _, path, _ in asked] == PATHS[name]
    assert all(key == "Bearer a-key" for key, *_ in asked[-2:])
    event = json.loads(asked[-1][2])
    assert event.items() >= NAMED[name].items()


@pytest.mark.slow(
    "acceptance/test_servers_benchmark.py::test_first_arrivals_alone_are_held_against_their_order"
)
async def test_a_rival_that_loses_its_order_is_found_out() -> None:
    stand_in = StandIn()
    runner = web.AppRunner(stand_in.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with ClientSession() as session:
        working = asyncio.create_task(stand_in.work(session))
        row = await measure(outpost.Outpost(stand_in, outpost.HEADERS, port), PLAN)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    await runner.cleanup()
    assert row.startswith("| Outpost 1.2.0 | ")
    *measured, missing, repeated, out_of_order = figures(row)
    assert all(figure > 0 for figure in measured), row
    assert (missing, repeated) == (0, 1)
    assert out_of_order > 0


@pytest.mark.slow(
    "acceptance/test_servers_benchmark.py::test_first_arrivals_alone_are_held_against_their_order"
)
def test_this_daemon_keeps_its_order(tmp_path: Path) -> None:
    with Rig(tmp_path, bin_dir=servers.programs(), durable=False, options={}) as rig:
        ourselves = Ourselves(rig)
        row = asyncio.run(measure(ourselves, PLAN))
        ourselves.end_worker()
    *measured, missing, _, out_of_order = figures(row)
    assert all(figure > 0 for figure in measured), row
    assert (missing, out_of_order) == (0, 0)
