"""What the sessions of the daemon and of its commands set for themselves.

An administrator may have set anything by server, database or role; what we depend on is set here, and wins.
docs/operate/server-settings.md lists the settings that matter, those too that are left as they are.
"""

from collections.abc import Mapping
from datetime import timedelta

SWITCHED_ON = (
    "enable_hashagg",
    "enable_hashjoin",
    "enable_indexonlyscan",
    "enable_indexscan",
    "enable_material",
    "enable_memoize",
    "enable_mergejoin",
    "enable_nestloop",
    "enable_partition_pruning",
    "enable_sort",
)
BY_INDEXES = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
"""A plan may be made while statistics call the outbox empty, when reading all of it looks cheapest."""
PLANNED_ONCE = {
    "plan_cache_mode": "force_generic_plan",
    **BY_INDEXES,
    # What the plans were tested with.
    **dict.fromkeys(SWITCHED_ON, "on"),
    "seq_page_cost": "1",
    "random_page_cost": "4",
    "cpu_tuple_cost": "0.01",
    "cpu_index_tuple_cost": "0.005",
    "cpu_operator_cost": "0.0025",
    "effective_cache_size": "4GB",
    "from_collapse_limit": "8",
    "join_collapse_limit": "8",
    "geqo": "off",
    "work_mem": "4MB",
    "hash_mem_multiplier": "2",
}
"""For sessions that ask the same few statements again and again; their plans fit any values (ADR 0013)."""
PLANNED_EACH_TIME = PLANNED_ONCE | {"plan_cache_mode": "force_custom_plan"}
"""For sessions whose statements have optional conditions: whose plans fit the values they are made for."""

SINCE_17: Mapping[str, str] = {"transaction_timeout": "0"}
"""Set once connected: a server before 17 would not let us in with it. Each statement has its own time-out."""


def session_settings(application_name: str, command_timeout: timedelta) -> dict[str, str]:
    """Give what every session sets: isolation, what names and values mean, time-outs below the client's."""
    milliseconds = int(command_timeout.total_seconds() * 1000)
    return {
        "application_name": application_name,
        "default_transaction_isolation": "read committed",
        "search_path": "pg_catalog",
        "standard_conforming_strings": "on",
        "timezone": "UTC",
        "jit": "off",
        "plan_cache_mode": "auto",
        # To start workers takes longer than the statements.
        "max_parallel_workers_per_gather": "0",
        "statement_timeout": str(max(1, milliseconds * 9 // 10)),
        "lock_timeout": str(max(1, milliseconds // 2)),
        "idle_in_transaction_session_timeout": str(max(1, milliseconds)),
        "idle_session_timeout": "0",
        # A row that the database refuses is looked for: an error that ends the session would be an outage.
        "exit_on_error": "off",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }
