"""Settings of the server that an administrator may change, changed to the most awkward values."""

from lab.chaos.evidence import Repeats
from lab.chaos.faults.hold import hold_over_all
from lab.chaos.faults.server import PATIENCE, TERMINATE
from lab.chaos.hit import Hit
from lab.chaos.kinds import Track, fault
from lab.chaos.testbed import Testbed

AWKWARD = {
    "jit": "on",
    "jit_above_cost": "0",
    "jit_inline_above_cost": "0",
    "jit_optimize_above_cost": "0",
    "plan_cache_mode": "force_custom_plan",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "enable_nestloop": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "enable_material": "off",
    "random_page_cost": "1000",
    "cpu_index_tuple_cost": "100",
    "effective_cache_size": "8kB",
    "work_mem": "64kB",
    "from_collapse_limit": "1",
    "join_collapse_limit": "1",
    "geqo_threshold": "2",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "min_parallel_index_scan_size": "0",
    "max_parallel_workers_per_gather": "8",
    "debug_parallel_query": "on",
    "force_parallel_mode": "on",
    "statement_timeout": "20ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "20ms",
    "idle_session_timeout": "300ms",
    "transaction_timeout": "20ms",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "synchronous_commit": "remote_apply",
    "search_path": "pg_temp, nowhere",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "row_security": "off",
    "array_nulls": "off",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "client_min_messages": "debug1",
}
"""What each is set to. Not here: what `database read-only` sets, and what gives up durability on purpose."""
PLACES = ("ALTER SYSTEM", "ALTER DATABASE webhook", "ALTER ROLE webhook_dispatcher")
"""Where it is set; but for the last, other sessions get it too: producers', operators', ours."""
CHANGED = 10
"""Settings changed at once."""


@fault("server settings changed", Track.SURROUNDINGS, Repeats.EXPOSED)
async def change_settings(testbed: Testbed, hit: Hit) -> None:
    """Change some of them somewhere, and end the daemons' sessions, so that they get new ones; then back."""
    known = await testbed.server.fetch(
        "SELECT name FROM pg_settings WHERE name = ANY($1)", list(AWKWARD), patience=PATIENCE
    )
    names = testbed.random.sample(sorted(row["name"] for row in known), CHANGED)
    place = testbed.random.choice(PLACES)
    hit.strikes(*testbed.fleet.living())
    hit.note = f"{place}: {', '.join(f'{name} = {AWKWARD[name]}' for name in names)}"
    try:
        await _apply(testbed, [f"{place} SET {name} = {_quoted(name)}" for name in names])
        await hold_over_all(testbed, hit, testbed.random.uniform(2, 4))
    finally:
        await _apply(testbed, [f"{place} RESET {name}" for name in names])


async def _apply(testbed: Testbed, statements: list[str]) -> None:
    for statement in statements:
        await testbed.server.execute(statement, patience=PATIENCE)
    await testbed.server.execute("SELECT pg_reload_conf()", patience=PATIENCE)
    await testbed.server.fetch(TERMINATE, 1.0, patience=PATIENCE)


def _quoted(name: str) -> str:
    """Quote a value; search_path is a list."""
    return AWKWARD[name] if name == "search_path" else f"'{AWKWARD[name]}'"
