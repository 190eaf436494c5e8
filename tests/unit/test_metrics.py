"""Metrics: the contract's names and labels, and nothing else."""

from prometheus_client import generate_latest

from webhook_dispatcher.telemetry.metrics import Metrics, metrics_table

CONTRACT = {
    "webhook_attempts_total": {"outcome", "trigger"},
    "webhook_attempt_duration_seconds": {"outcome"},
    "webhook_deliveries_total": {"state", "type"},
    "webhook_delivery_lag_seconds": set(),
    "webhook_pending": set(),
    "webhook_pending_retry": set(),
    "webhook_oldest_pending_age_seconds": set(),
    "webhook_oldest_due_retry_age_seconds": set(),
    "webhook_lanes_leased": set(),
    "webhook_attempts_in_flight": set(),
    "webhook_claim_duration_seconds": set(),
    "webhook_record_duration_seconds": set(),
    "webhook_leases_lost_total": set(),
    "webhook_database_errors_total": {"operation"},
    "webhook_control_commands_total": {"command", "status"},
    "webhook_event_loop_lag_seconds": set(),
    "webhook_own_fault": {"kind"},
    "webhook_build_info": {"version"},
}


def table_rows() -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in metrics_table().splitlines()[2:]]


def test_names_and_labels_are_the_contracts() -> None:
    found = {row[0].strip("`"): {label.strip("`, ") for label in row[2].split()} for row in table_rows()}
    assert found == CONTRACT
    assert all(row[3] for row in table_rows())


def test_known_labels_are_there_from_the_start() -> None:
    text = generate_latest(Metrics("1.2.3").registry).decode()
    assert 'webhook_attempts_total{outcome="timeout",trigger="manual"} 0.0' in text
    assert 'webhook_deliveries_total{state="failed",type="charge.fiscal_failed"} 0.0' in text
    assert 'webhook_control_commands_total{command="retry_failed",status="rejected"} 0.0' in text
    assert 'webhook_build_info{version="1.2.3"} 1.0' in text


def test_nothing_beyond_the_contract_is_exported() -> None:
    metrics = Metrics("1.2.3")
    metrics.database_errors.labels("claim").inc()
    names = {
        line.split()[2]
        for line in generate_latest(metrics.registry).decode().splitlines()
        if "# TYPE" in line
    }
    assert names == set(CONTRACT)


def test_two_sets_of_metrics_do_not_share_state() -> None:
    one, other = Metrics("1"), Metrics("2")
    one.pending.set(5)
    assert "webhook_pending 5.0" in generate_latest(one.registry).decode()
    assert "webhook_pending 0.0" in generate_latest(other.registry).decode()
