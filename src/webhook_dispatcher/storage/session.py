"""What the sessions of the daemon and of its commands set for themselves."""

from datetime import timedelta

PLANNED_ONCE = {
    "plan_cache_mode": "force_generic_plan",
    # A plan may be made while the outbox is empty, when reading all of it looks cheapest, and is kept.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}
"""For sessions that ask the same few statements again and again; their plans fit any values (ADR 0013)."""


def session_settings(application_name: str, command_timeout: timedelta) -> dict[str, str]:
    """Give what every session sets: isolation, time-outs a little below the client's, keepalives."""
    milliseconds = int(command_timeout.total_seconds() * 1000)
    return {
        "application_name": application_name,
        "default_transaction_isolation": "read committed",
        "timezone": "UTC",
        "statement_timeout": str(max(1, milliseconds * 9 // 10)),
        "lock_timeout": str(max(1, milliseconds // 2)),
        "idle_in_transaction_session_timeout": str(max(1, milliseconds)),
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }
