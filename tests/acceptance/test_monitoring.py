"""What operators are told, tried: dashboard and rules by a Prometheus, runbooks by their commands."""

import json
import math
import re
import shlex
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.api_merchant import PartnerApi, start_api
from tests.acceptance.installation import Installation
from tests.acceptance.load import Load
from tests.acceptance.processes import http_get
from tests.acceptance.prometheus import Prometheus
from tests.acceptance.supervised_processes import asked, end, start_processes
from tests.waiting import until_found
from webhook_dispatcher.cli.failures import NAME
from webhook_dispatcher.local.behaviour import Behaviour

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "webhook-dispatcher.json").read_text(encoding="utf-8"))
RUNBOOKS = "".join(
    page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "runbooks").iterdir())
)
MERCHANTS = [f"m{number}" for number in range(8)]
RATE = 30.0
VARIABLES = {"$__rate_interval": "15s", "$instance": ".*", "$shard": ".*"}
EMPTY_WITHOUT_FAULTS = {"Statements that failed"}
"""Panels of what has labels only once it has happened."""
UNSUCCESSFUL = {"test-event merchant-1": 1}
"""Commands of the runbooks that fail here: the receiver never learns the secret that was made before."""


@pytest.fixture(autouse=True)
async def _all_ended(installation: Installation) -> AsyncIterator[None]:
    yield
    for daemon in installation.daemons:
        end(daemon)


def targets() -> Iterator[tuple[str, str]]:
    """Return each panel's title with each of its queries, variables substituted as Grafana does."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            expression: str = target["expr"]
            for name, text in VARIABLES.items():
                expression = expression.replace(name, text)
            yield panel["title"], expression


async def supervised_port(installation: Installation) -> int:
    supervisor = await start_processes(installation, 2)
    port: int = supervisor.log("supervisor.started")[0]["ops_port"]
    return port


async def test_the_dashboard_shows_and_the_rules_judge_daemons_at_work(
    installation: Installation, tmp_path: Path
) -> None:
    await installation.configure(*MERCHANTS)
    installation.receiver.behave(MERCHANTS[0], Behaviour(status=500))
    alone = await installation.start()
    api = await start_api(installation)
    ports = [alone.log("daemon.started")[0]["ops_port"], await supervised_port(installation), api.ops_port]
    async with (
        Prometheus(tmp_path, ports) as prometheus,
        Load(installation.database.dsn("webhook_producer"), MERCHANTS, RATE),
    ):
        await _has_seen_enough(prometheus, api)
        found = {(title, query): await prometheus.values(query) for title, query in targets()}
        unfounded = {
            title
            for (title, _), values in found.items()
            if not any(map(math.isfinite, values)) and title not in EMPTY_WITHOUT_FAULTS
        }
        assert unfounded == set()
        assert [title for title in EMPTY_WITHOUT_FAULTS if title not in {panel for panel, _ in found}] == []
        rules = await prometheus.rules()
        for rule in rules:
            await prometheus.values(rule["query"])
        assert [rule for rule in rules if rule["health"] != "ok"] == []
        # What is late on a slow machine may fire as it should.
        assert [rule["name"] for rule in rules if _fires(rule) and rule["labels"].get("slo") != "lag"] == []


async def _has_seen_enough(prometheus: Prometheus, api: PartnerApi) -> None:
    """Wait until daemons have delivered and the API has answered for long enough to tell a rate."""

    async def seen() -> bool:
        assert (await http_get(api.port, "/v1/webhook"))[0] == 401
        requests = await prometheus.values("sum(rate(webhook_api_requests_total[15s])) > 0")
        rates = await prometheus.values(
            'rate(webhook_deliveries_total{state="delivered",type="charge.created"}[15s]) > 0'
        )
        late = await prometheus.values("webhook:delivery_lag_late:ratio_rate6h >= 0")
        measured = await prometheus.values("count(webhook_pending_retry > 0)")
        return len(rates) == 2 and bool(late) and measured == [2] and bool(requests)

    await until_found(seen)


def _fires(rule: dict[str, Any]) -> bool:
    return rule["type"] == "alerting" and bool(rule["state"] == "firing")


async def test_a_process_says_that_it_is_ready_alone_as_under_a_supervisor(
    installation: Installation,
) -> None:
    alone = await installation.start()
    supervisor = await start_processes(installation, 2)

    async def told_by_the_supervisor() -> str | None:
        # A process that works is not known to be ready until the supervisor has looked.
        text = (await asked(supervisor, "/metrics"))[1]
        return text if '\nwebhook_processes{state="ready"} 2.0\n' in text else None

    text = (await alone.asked("/metrics"))[1]
    assert '\nwebhook_processes{state="ready"} 1.0\n' in text
    for told in (text, await until_found(told_by_the_supervisor)):
        assert "\nwebhook_ready 1.0\n" in told
        assert re.search(r"^webhook_start_time_seconds 1\.\d+e\+09$", told, re.MULTILINE)


async def test_a_process_that_runs_alone_says_that_it_is_not_ready(installation: Installation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Nobody listens at the database's port; that of metrics was free a moment ago.
    installation.spawn(DATABASE_URL="eu1=postgresql://u@127.0.0.1:1/d", OPS_ADDRESS=f"127.0.0.1:{port}")

    async def served() -> str | None:
        try:
            return (await http_get(port, "/metrics"))[1]
        except OSError:
            return None

    text = await until_found(served)
    assert '\nwebhook_ready{shard="eu1"} 0.0\n' in text
    assert '\nwebhook_processes{shard="eu1",state="not_ready"} 1.0\n' in text


def runbook_commands() -> list[str]:
    lines = re.findall(rf"^\$ {NAME} (.*?)(?: +#.*)?$", RUNBOOKS, re.MULTILINE)
    return list(dict.fromkeys(lines))


async def test_the_commands_of_the_runbooks_work_as_they_are_written(installation: Installation) -> None:
    await installation.configure("merchant-1", "merchant-9")
    installation.receiver.behave("merchant-1", Behaviour(status=500))
    await installation.start(RETRY_SCHEDULE="PT0.1S")
    event = await installation.emit("merchant-1")
    await installation.settled(event.id, "failed", 2)
    assert len(runbook_commands()) > 20
    ended = {}
    for line in runbook_commands():
        words = shlex.split(line.replace("EVENT", str(event.id)))
        done = installation.command(*words)
        ended[line] = (done.returncode, done.stderr)
    wrong = {line: said for line, said in ended.items() if said[0] != UNSUCCESSFUL.get(line, 0)}
    assert wrong == {}
