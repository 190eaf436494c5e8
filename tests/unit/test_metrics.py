"""Metrics: the contract's names and labels, and nothing else."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from docs.reference import metrics_table
from webhook_dispatcher.api.metrics import ApiMetrics
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.telemetry.metrics import MAX_OWN_TYPES, Metrics, ProcessMetrics

CONTRACT_FILE = Path(__file__).parents[2] / "docs" / "contract.md"
OF_PROCESSES = {
    "webhook_processes": {"state"},
    "webhook_process_restarts_total": set(),
    "webhook_ready": set(),
    "webhook_start_time_seconds": set(),
}
OF_A_DATABASE = {
    "webhook_pending",
    "webhook_pending_retry",
    "webhook_paused",
    "webhook_suspended_merchants",
    "webhook_failing_merchants",
    "webhook_lost_events",
    "webhook_oldest_pending_age_seconds",
    "webhook_oldest_due_retry_age_seconds",
}


def promised() -> dict[str, set[str]]:
    """Return the labels of each metric that is no process's, as the contract writes them."""
    text = CONTRACT_FILE.read_text(encoding="utf-8").partition("\n## 6. ")[2].partition("\n## 8. ")[0]
    # Names are repeated further down without their labels.
    first = dict(reversed(re.findall(r"`(webhook_\w+)(?:\{([\w,]+)\})?`", text)))
    return {
        name: set(filter(None, labels.split(",")))
        for name, labels in first.items()
        if name not in OF_PROCESSES
    }


OF_THE_API = {name: labels for name, labels in promised().items() if name.startswith("webhook_api_")}
CONTRACT = {name: labels for name, labels in promised().items() if name not in OF_THE_API}


def table_rows() -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in metrics_table().splitlines()[2:]]


def names(registry: CollectorRegistry) -> set[str]:
    lines = generate_latest(registry).decode().splitlines()
    return {line.split()[2] for line in lines if "# TYPE" in line}


def test_names_and_labels_are_the_contracts() -> None:
    found = {row[0].strip("`"): set(row[2].split("`")[1::2]) for row in table_rows()}
    # Where databases have names, what is one database's is labelled with its name.
    named = {name: labels | {"shard"} for name, labels in CONTRACT.items() if name in OF_A_DATABASE}
    whole = "webhook_start_time_seconds"
    processes = {
        name: labels | ({"shard"} if name != whole else set()) for name, labels in OF_PROCESSES.items()
    }
    assert found == CONTRACT | OF_THE_API | named | processes
    assert all(row[3] for row in table_rows())
    assert all(
        ("`shard` where databases have names" in row[2]) == ("shard" in found[row[0].strip("`")])
        for row in table_rows()
    )


def test_known_labels_are_there_from_the_start() -> None:
    text = generate_latest(Metrics("1.2.3").registry).decode()
    assert 'webhook_attempts_total{outcome="timeout",trigger="manual"} 0.0' in text
    assert 'webhook_deliveries_total{reason="",state="delivered",type="charge.created"} 0.0' in text
    for reason in FailedReason:
        labels = f'reason="{reason}",state="failed",type="charge.fiscal_failed"'
        assert f"webhook_deliveries_total{{{labels}}} 0.0" in text
    assert 'webhook_control_commands_total{command="retry_failed",status="rejected"} 0.0' in text
    assert 'webhook_build_info{version="1.2.3"} 1.0' in text


def test_so_many_types_of_ones_own_are_labels_and_no_more() -> None:
    metrics = Metrics("1.2.3")
    for number in range(2 * MAX_OWN_TYPES):
        metrics.deliveries_by[State.DELIVERED, None, f"own.{number % (MAX_OWN_TYPES + 2)}"].inc()
    metrics.deliveries_by[State.DELIVERED, None, "no type"].inc()
    lines = generate_latest(metrics.registry).decode().splitlines()
    label = 'webhook_deliveries_total{reason="",state="delivered",type='
    assert len([line for line in lines if line.startswith(f'{label}"own.')]) == MAX_OWN_TYPES
    assert f'{label}"own.0"}} 2.0' in lines
    assert f'{label}"unknown"}} 3.0' in lines


def test_named_database_labels_what_is_its_own() -> None:
    metrics = Metrics("1.2.3", shard="eu1")
    metrics.pending.set(5)
    text = generate_latest(metrics.registry).decode()
    assert 'webhook_pending{shard="eu1"} 5.0' in text
    labelled = {line.partition("{")[0] for line in text.splitlines() if 'shard="eu1"' in line}
    assert (labelled, names(metrics.registry)) == (OF_A_DATABASE, set(CONTRACT))


def test_the_api_shows_its_own_and_no_others() -> None:
    metrics = ApiMetrics("1.2.3", ["read"], lambda: 3, lambda: ["away"])
    metrics.count("read", 404, 0.1, -16014)
    assert names(metrics.registry) == set(OF_THE_API)
    assert metrics.registry.get_sample_value("webhook_api_ready") == 0
    labels = {"operation": "read", "status": "404"}
    assert metrics.registry.get_sample_value("webhook_api_requests_total", labels) == 1


@pytest.mark.parametrize(
    ("shards", "labels"), [([None], [""]), (["eu1", "eu2"], ['shard="eu1",', 'shard="eu2",'])]
)
def test_processes_are_counted_with_their_restarts(shards: list[str | None], labels: list[str]) -> None:
    registry = CollectorRegistry()
    counts = {"ready": 3, "not_ready": 0, "away": 0}
    metrics = ProcessMetrics(registry, shards, lambda shard, state: counts[state], 1.5)
    assert names(registry) == set(OF_PROCESSES)
    metrics.count_restart(shards[0])
    text = generate_latest(registry).decode()
    for number, label in enumerate(labels):
        assert f'webhook_processes{{{label}state="ready"}} 3.0' in text
        assert f'webhook_processes{{{label}state="away"}} 0.0' in text
        of_shard = f"{{{label.rstrip(',')}}}" if label else ""
        assert f"webhook_process_restarts_total{of_shard} {float(number == 0)}" in text
        assert f"webhook_ready{of_shard} 1.0" in text
    assert "webhook_start_time_seconds 1.5" in text
    counts["ready"] = 0
    assert registry.get_sample_value("webhook_ready", {"shard": shards[0]} if shards[0] else {}) == 0
