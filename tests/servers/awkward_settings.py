"""Values that an administrator may give to the server's settings, and that nobody here would choose.

docs/operate/server-settings.md says what each does to us; tests/integration/test_server_settings.py shows it.
"""

from collections.abc import Mapping
from datetime import timedelta

from webhook_dispatcher.storage.session import PLANNED_ONCE, session_settings
from webhook_dispatcher.storage.session import SINCE_17 as SET_SINCE_17

AWKWARD: Mapping[str, tuple[str, ...]] = {
    # Plans
    "jit": ("on",),
    "jit_above_cost": ("0",),
    "jit_inline_above_cost": ("0",),
    "jit_optimize_above_cost": ("0",),
    "plan_cache_mode": ("force_generic_plan", "force_custom_plan"),
    "enable_bitmapscan": ("on",),
    "enable_hashagg": ("off",),
    "enable_hashjoin": ("off",),
    "enable_indexonlyscan": ("off",),
    "enable_indexscan": ("off",),
    "enable_material": ("off",),
    "enable_memoize": ("off",),
    "enable_mergejoin": ("off",),
    "enable_nestloop": ("off",),
    "enable_partition_pruning": ("off",),
    "enable_seqscan": ("on",),
    "enable_sort": ("off",),
    "seq_page_cost": ("0",),
    "random_page_cost": ("1", "1000"),
    "cpu_tuple_cost": ("10",),
    "cpu_index_tuple_cost": ("10",),
    "cpu_operator_cost": ("10",),
    "effective_cache_size": ("8kB",),
    "from_collapse_limit": ("1",),
    "join_collapse_limit": ("1",),
    "geqo": ("on",),
    "geqo_threshold": ("2",),
    "max_parallel_workers_per_gather": ("8",),
    "parallel_setup_cost": ("0",),
    "parallel_tuple_cost": ("0",),
    "min_parallel_table_scan_size": ("0",),
    "min_parallel_index_scan_size": ("0",),
    "work_mem": ("64kB",),
    "hash_mem_multiplier": ("1",),
    "default_statistics_target": ("1",),
    # Transactions and time-outs
    "default_transaction_isolation": ("serializable", "repeatable read"),
    "default_transaction_deferrable": ("on",),
    "synchronous_commit": ("off", "local", "remote_apply"),
    "statement_timeout": ("1ms",),
    "lock_timeout": ("1ms",),
    "idle_in_transaction_session_timeout": ("1ms",),
    "idle_session_timeout": ("100ms",),
    "transaction_timeout": ("100ms",),
    "deadlock_timeout": ("1ms",),
    "client_connection_check_interval": ("10ms",),
    "tcp_keepalives_idle": ("7200",),
    "tcp_keepalives_interval": ("7200",),
    "tcp_keepalives_count": ("100",),
    "tcp_user_timeout": ("1000",),
    "exit_on_error": ("on",),
    # What names mean, and how values are read and written
    "search_path": ("shadow, pg_catalog", "nowhere"),
    "TimeZone": ("Asia/Kathmandu", "America/St_Johns"),
    "DateStyle": ("German, DMY", "SQL, MDY", "Postgres, DMY"),
    "IntervalStyle": ("sql_standard", "iso_8601", "postgres_verbose"),
    "bytea_output": ("escape",),
    "extra_float_digits": ("-15",),
    "client_encoding": ("LATIN1",),
    "standard_conforming_strings": ("off",),
    "backslash_quote": ("off",),
    "escape_string_warning": ("off",),
    "array_nulls": ("off",),
    "transform_null_equals": ("on",),
    "quote_all_identifiers": ("on",),
    "xmloption": ("document",),
    "xmlbinary": ("hex",),
    "lc_messages": ("C.UTF-8",),
    "lc_monetary": ("C.UTF-8",),
    "lc_numeric": ("C.UTF-8",),
    "lc_time": ("C.UTF-8",),
    # What is checked, logged and counted
    "row_security": ("off",),
    "check_function_bodies": ("off",),
    "session_replication_role": ("replica",),
    "client_min_messages": ("debug5", "error"),
    "log_statement": ("all",),
    "log_min_duration_statement": ("0",),
    "log_duration": ("on",),
    "log_min_messages": ("debug1",),
    "debug_print_plan": ("on",),
    "track_activities": ("off",),
    "track_counts": ("off",),
    "track_io_timing": ("on",),
    "compute_query_id": ("off", "on"),
}
"""Each is tried by itself, as a default of a role in one database."""

SINCE_17 = frozenset({"transaction_timeout"})
BEARABLE: Mapping[str, str] = {
    "default_transaction_isolation": "read committed",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "search_path": "public",
    "jit": "off",
    "exit_on_error": "off",
}
"""What a test's own sessions set for themselves: they ask for nothing but what they say."""


def bearable(version: int) -> dict[str, str]:
    """Return what a test's own session sets on a server of a major version."""
    return {**BEARABLE, **(SET_SINCE_17 if version >= 17 else {})}


def known(version: int) -> dict[str, tuple[str, ...]]:
    """Return what a major version has of them."""
    return {name: values for name, values in AWKWARD.items() if version >= 17 or name not in SINCE_17}


def set_by_us(version: int) -> frozenset[str]:
    """Return those that our sessions that claim and record set for themselves; the others set fewer."""
    ours = {**session_settings("", timedelta(0)), **PLANNED_ONCE, **(SET_SINCE_17 if version >= 17 else {})}
    lower = {name.lower(): name for name in AWKWARD}
    return frozenset(lower[name] for name in ours if name in lower)


def literal(name: str, value: str) -> str:
    """Write a value as SET takes it: a list of schemas is not one string."""
    return value if name == "search_path" else f"'{value}'"
