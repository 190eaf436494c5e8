"""What is asked of each statement beside many rows it has nothing to do with, and how many it may touch.

The rows are those of FILL: one merchant owes 15,000 events in order, one 5,000 out of it, and 5,000
merchants four each, half of what was ever there is dead, and the logs and the control table are full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from webhook_dispatcher.storage.statements import COMMAND_LINE, CONSOLE, PARTNER_API, Role, load

LANES = 5_000
ROWS = 40_000
HOT = 15_000
OWING = 5_000
ASKED = 100
RETRIED = ASKED // 3
FIRST_OF_LANES = HOT + OWING
FINISHED_AT = f"'{datetime.now(UTC):%Y-%m-%d %H}:00+00'"
"""Of all that the log holds: one instant, whichever hour begins while rows are written or asked for."""
NAMED = "m" * 120
"""What merchants' ids begin with. Their indexes are a level higher than those of numbers, and look dearer."""
HOT_ONE = "h" * 128
OWING_ONE = "o" * 128
LEFT_ONE = "l" * 128
"""One that is routed, and left OWING retries in its own lane: of them ASKED are claimed."""
LEFT_FROM = 4 * ROWS
KEY = 8
"""An API key, whose are TOKEN and all requests that are kept."""
CLAIMED_FROM = ROWS - LANES
DUE_FROM = ROWS - 2 * LANES

LEAVE_ALONE = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT oid::regclass FROM pg_class
        WHERE relnamespace = 'webhook'::regnamespace AND relkind = 'r'
    LOOP
        EXECUTE 'ALTER TABLE ' || name || ' SET (autovacuum_enabled = off)';
    END LOOP;
END
$$
"""
"""Keeps autovacuum away: after it, plans would be made anew."""

BEARER = f"""
INSERT INTO webhook.api_key (id, client_id, secret_hash, merchant_id, name, created_by)
OVERRIDING SYSTEM VALUE
VALUES (1000000, 'client', sha256(''), '{NAMED}1', 'a test', 'a test');
INSERT INTO webhook.api_token (hash, api_key_id, expires_at)
SELECT sha256('a token'), api_key.id, 'infinity' FROM webhook.api_key;
INSERT INTO webhook.account (name, role, created_by, salt, memory_kib, passes, parallelism, verifier)
VALUES ('oleg', 'operator', 'a test', substr(sha256(''), 1, 16), 65536, 3, 4, sha256(sha256('')));
INSERT INTO webhook.console_session (hash, account_id, began_at, acted_at, expires_at)
SELECT sha256('a session'), account.id, clock_timestamp(), 'infinity', 'infinity'
FROM webhook.account WHERE account.name = 'oleg';
INSERT INTO webhook.sealing_key (key_id, public_half) VALUES ('k1', sha256(''))
"""
"""A token of the second of 5,000 merchants and an operator's session: without them functions refuse."""

FILL = f"""
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
SELECT '{NAMED}' || n, 'https://example.com/', '\\x00', 'k1' FROM generate_series(0, {LANES - 1}) AS n;
INSERT INTO webhook.lane (merchant_id, routed_at)
VALUES ('{HOT_ONE}', clock_timestamp()), ('{OWING_ONE}', NULL);
INSERT INTO webhook.lane (merchant_id) SELECT '{HOT_ONE}' || chr(31) || n FROM generate_series(1, 2) AS n;
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
SELECT '{HOT_ONE}' || chr(31) || n, 'https://example.com/', '\\x00', 'k1' FROM generate_series(1, 2) AS n;
UPDATE webhook.lane SET lease_until = clock_timestamp() + interval '1 hour' WHERE merchant_id = '{HOT_ONE}';
UPDATE webhook.lane SET retry_at = clock_timestamp() - interval '1 minute' WHERE merchant_id < '{NAMED}1';
INSERT INTO webhook.outbox (seq, id, merchant_id, type, object, due_at, claim) OVERRIDING SYSTEM VALUE
SELECT
    n,
    lpad(n::text, 32, '0')::uuid,
    CASE
        WHEN k < {HOT} THEN '{HOT_ONE}'
        WHEN k < {FIRST_OF_LANES} THEN '{OWING_ONE}'
        ELSE '{NAMED}' || k % {LANES}
    END,
    'charge.succeeded',
    '{{"id": "ch_0123456789"}}',
    CASE
        WHEN k >= {CLAIMED_FROM} THEN clock_timestamp() + interval '1 hour'
        WHEN k >= {DUE_FROM} THEN clock_timestamp() - interval '1 minute'
        WHEN k >= {HOT} AND k < {FIRST_OF_LANES} THEN clock_timestamp() + k * interval '1 second'
    END,
    CASE WHEN k >= {CLAIMED_FROM} THEN k END
FROM generate_series(1, {2 * ROWS}) AS n
CROSS JOIN LATERAL (SELECT (n - 1) / 2 AS k) AS event;
DELETE FROM webhook.outbox WHERE seq % 2 = 0;
INSERT INTO webhook.lane (merchant_id, routed_at)
VALUES ('{LEFT_ONE}', clock_timestamp()), (E'{LEFT_ONE}\\x1f1', NULL);
INSERT INTO webhook.outbox (seq, id, merchant_id, type, object, due_at, claim) OVERRIDING SYSTEM VALUE
SELECT
    {LEFT_FROM} + n, lpad(({LEFT_FROM} + n)::text, 32, '0')::uuid, '{LEFT_ONE}', 'charge.succeeded',
    '{{"id": "ch_0123456789"}}', clock_timestamp() + n * interval '1 second', CASE WHEN n < {ASKED} THEN n END
FROM generate_series(0, {OWING - 1}) AS n;
SELECT setval('webhook.outbox_seq_seq', {2 * ROWS});
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at
)
SELECT
    {2 * ROWS} + n, lpad(({2 * ROWS} + n)::text, 32, '0')::uuid, '{NAMED}' || n % {LANES}, 'charge.succeeded',
    clock_timestamp(), '{{}}', CASE WHEN n % 2 = 0 THEN 'failed' ELSE 'delivered' END,
    CASE WHEN n % 2 = 0 THEN 'exhausted' END, 1, {FINISHED_AT}
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.attempt_log (event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome)
SELECT
    lpad(({2 * ROWS} + n)::text, 32, '0')::uuid, '{NAMED}' || n % {LANES}, 1, 'schedule', clock_timestamp(),
    5, 'delivered'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.unreported_failure (finished_at, seq, event_id, merchant_id, reason)
SELECT
    clock_timestamp() + CASE WHEN n <= {ASKED} THEN -interval '1 hour' ELSE interval '1 hour' END,
    n, gen_random_uuid(), '{NAMED}' || n % {LANES}, 'exhausted'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.control (command, args, requested_by, status, handled_at)
SELECT 'pause', '{{}}', 'somebody', 'done', clock_timestamp() FROM generate_series(1, {ROWS // 4});
INSERT INTO webhook.control (command, event_id, requested_by)
SELECT 'cancel', lpad((2 * ({FIRST_OF_LANES} + n % {ASKED}) + 1)::text, 32, '0')::uuid, 'somebody'
FROM generate_series(1, {3 * ASKED}) AS n;
INSERT INTO webhook.control (command, args, requested_by) VALUES ('pause', '{{}}', 'somebody');
INSERT INTO webhook.command_chunk (command_id, place, seqs)
SELECT
    1 + n % 1000, n / 1000 * 20,
    ARRAY(SELECT 2 * {FIRST_OF_LANES} + 2 * s + 1 FROM generate_series(1, 20) AS s)
FROM generate_series(0, {ROWS - 1}) AS n;
INSERT INTO webhook.dispatcher (
    owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults
)
SELECT 'd' || n, 'h', '1', clock_timestamp(), clock_timestamp(), 1, 1, true, '{{}}', '{{}}'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.attempts_by_minute (minute, outcome, attempts)
SELECT date_trunc('minute', statement_timestamp()) - n * interval '1 minute', 'delivered', 1
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.seq_by_minute (minute, seq)
SELECT date_trunc('minute', statement_timestamp()) - n * interval '1 minute', {ROWS} - n
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.api_key (id, client_id, secret_hash, merchant_id, name, created_by)
OVERRIDING SYSTEM VALUE
SELECT n, 'client' || n, sha256(('s' || n)::bytea), '{NAMED}' || n, 'shop', 'cli:ana'
FROM generate_series(1, {LANES}) AS n;
SELECT setval(pg_get_serial_sequence('webhook.api_key', 'id'), {LANES});
INSERT INTO webhook.api_token (hash, api_key_id, expires_at)
SELECT sha256(n::text::bytea), 1 + n % {LANES}, clock_timestamp() + (n % 2 - 0.5) * interval '1 hour'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.api_request (hash, body_hash, status, language, answer, expires_at)
SELECT
    webhook.request_hash({KEY}, sha256(n::text::bytea)), sha256(''), 200, 'en', '{{}}',
    clock_timestamp() + (n % 2 - 0.5) * interval '1 hour'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.api_kept_bytes (api_key_id, expires_at, bytes)
SELECT n, clock_timestamp() + (n % 2 - 0.5) * interval '1 hour', 1
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.api_usage (subject, since, taken, expires_at)
SELECT
    'key:' || n, 1000 * extract(EPOCH FROM clock_timestamp()), ARRAY[1],
    clock_timestamp() + (n % 2 - 0.5) * interval '1 hour'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.card_attempts (subject, since, taken, expires_at)
SELECT
    'card:' || n, 1000 * extract(EPOCH FROM clock_timestamp()), ARRAY[1],
    clock_timestamp() + (n % 2 - 0.5) * interval '1 hour'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO webhook.api_key (client_id, secret_hash, merchant_id, name, created_by)
VALUES ('reader', sha256('secret'), '{NAMED}1', 'reads', 'somebody');
INSERT INTO webhook.api_token (hash, api_key_id, expires_at)
SELECT sha256('reader'), id, 'infinity' FROM webhook.api_key WHERE client_id = 'reader';
INSERT INTO webhook.account (name, role, created_by, salt, memory_kib, passes, parallelism, verifier)
SELECT 'person' || n, 'viewer', 'somebody', substr(sha256(''), 1, 16), 65536, 3, 4, sha256(sha256(''))
FROM generate_series(1, 20) AS n;
INSERT INTO webhook.console_session (hash, account_id, began_at, acted_at, expires_at)
SELECT
    sha256(n::text::bytea), account.id, clock_timestamp(), clock_timestamp(),
    clock_timestamp() + (n % 2 - 0.5) * interval '1 hour'
FROM generate_series(1, {ROWS}) AS n
JOIN webhook.account ON account.name = 'person' || 1 + n % 20;
INSERT INTO webhook.sign_in_code (hash, account_id, expires_at)
SELECT console_session.hash, console_session.account_id, console_session.expires_at
FROM webhook.console_session;
INSERT INTO webhook.sign_in_failure (subject, failed_at, expires_at)
SELECT
    'name ' || n, ARRAY[clock_timestamp()], clock_timestamp() + (n % 2 - 0.5) * interval '1 hour'
FROM generate_series(1, {ROWS}) AS n;
"""


@dataclass(frozen=True, slots=True)
class Question:
    """The values a statement is given, as SQL, and how many rows it is about."""

    values: tuple[str, ...]
    rows: int = 1


def _seq(event: int) -> int:
    """Return the number of an event that is still there."""
    return 2 * event + 1


def _each(value: str, sqltype: str) -> str:
    return f"array_fill({value}::{sqltype}, ARRAY[{ASKED}])"


def _listed(values: list[object]) -> str:
    return f"ARRAY[{', '.join(map(str, values))}]"


def _uuid(number: int) -> str:
    return f"lpad('{number}', 32, '0')::uuid"


def _secrets(sealed: str) -> tuple[str, ...]:
    """Return one secret and no previous one for each of the asked: key ids, secrets, and both again."""
    return _each("'k1'", "text"), _each(sealed, "bytea"), _each("NULL", "text"), _each("NULL", "bytea")


NAMES = f"ARRAY{[f'{NAMED}{number}' for number in range(ASKED)]}"
EVENTS = [FIRST_OF_LANES + n if n >= RETRIED else CLAIMED_FROM + n for n in range(ASKED)]
"""One event of each asked lane: a third of them are retries in flight."""
SEQS = _listed([_seq(event) for event in EVENTS])
FENCES = _listed([event if event >= CLAIMED_FROM else 0 for event in EVENTS])
ARE_RETRIES = _listed([event >= CLAIMED_FROM for event in EVENTS])
STATES = _listed(["'delivered'" if n % 2 else "NULL::text" for n in range(ASKED)])
DUE_ATS = _listed(["NULL" if n % 2 else "clock_timestamp()" for n in range(ASKED)])
OWNER = "sha256('a token')"
"""The access token of BEARER."""
FIRST, MERCHANT = f"'{NAMED}0'", f"'{NAMED}1'"
CLIENT = "client7"
SESSION = "sha256('a session')"
"""The operator's of BEARER."""
PROOF, NEW_PASSWORD = "sha256('')", ("substr(sha256(''), 1, 16)", "65536", "3", "4", "sha256('')")
ADDRESS, FIREFOX = "'192.0.2.1'", "'Firefox'"
TOKEN = "sha256('7')"
"""An access token of KEY that has not expired."""
REQUEST = "sha256('7')"
"""A request of KEY's that was answered, and is kept."""
VIEWS = 8
"""Rows whose buffers are allowed for what views and their functions read of the catalogue when planned anew;
test_api_read_cost.py holds what they read of rows."""
NOW = "clock_timestamp()"
STARTED_AT = _each("pg_postmaster_start_time()", "timestamptz")
LONG_AGO = "'2000-01-01'"
IN_OUTBOX = _uuid(_seq(FIRST_OF_LANES))
LOGGED = 2 * ROWS + 2
WAITING = str(ROWS // 4 + 3 * ASKED + 1)
"""The last command of FILL."""
IDS = _listed([_uuid(_seq(event)) for event in EVENTS])
LOGGED_IDS = _listed([_uuid(LOGGED + n) for n in range(ASKED)])
LOGGED_FOR = f"'{NAMED}2'"
RANGE = ("NULL", LONG_AGO, "0", "'infinity'")

DAYS = ("'-infinity'", "'infinity'")
KINDS = "ARRAY['delivered', 'failed']"
SENT_AGAIN = "ARRAY['delivered', 'failed', 'pending_retry']"
IN_LOG = (
    _listed([2 * ROWS + 1 + n for n in range(ASKED)]),
    _each(FINISHED_AT, "timestamptz"),
    f"ARRAY{[f'{NAMED}{1 + n}' for n in range(ASKED)]}",
)

RECORD = Question(
    (
        *(SEQS, NAMES, IDS, FENCES, ARE_RETRIES, STATES),
        *(_each("NULL", "text"), _each("1", "smallint"), f"{DUE_ATS}::timestamptz[]"),
        *(
            _each("200", "smallint"),
            _each("'delivered'", "text"),
            _each("NULL", "text"),
            _each("NULL", "text"),
        ),
        *(
            _each("'schedule'", "text"),
            _each(NOW, "timestamptz"),
            _each("5", "integer"),
            _each(NOW, "timestamptz"),
        ),
        *(
            NAMES,
            _each("0", "bigint"),
            _each("false", "boolean"),
            _each(NOW, "timestamptz"),
            _each("0", "bigint"),
        ),
        *(STARTED_AT, "'30 seconds'"),
    ),
    ASKED,
)

READER = "sha256('reader')"
"""The token of MERCHANT."""
NEWEST = str(2**63 - 1)
UNFILTERED = ("NULL", "NULL", "NULL", "NULL")
OF_OWN = (*UNFILTERED, "NULL")
"""Of no endpoint, either."""
ALL_MATCH = ("NULL", "NULL", "NULL", "NULL", "NULL", "NULL")
LOOKED = str(10 * ASKED)

DELIVERY: Mapping[str, Question] = {
    "read_deliveries": Question((f"ARRAY[{_uuid(LOGGED)}]", "20", f"ARRAY[{MERCHANT}]"), VIEWS),
    "read_attempts": Question((_uuid(LOGGED), str(ASKED)), VIEWS),
    "read_excerpts": Question((_uuid(LOGGED), str(ASKED)), VIEWS),
    "read_latest_attempts": Question((MERCHANT, NOW, "5"), VIEWS),
    "read_neighbours": Question((MERCHANT, LONG_AGO, NOW, "50"), 50),
    "read_circumstances": Question(
        (f"ARRAY['{HOT_ONE}']", str(_seq(HOT - 1)), str(ASKED), f"'{HOT_ONE}'"), ASKED
    ),
    "read_endpoints_since": Question((MERCHANT, NOW), VIEWS),
    "read_pauses": Question((MERCHANT,), VIEWS),
    "read_commands_about": Question((f"ARRAY[{IN_OUTBOX}]", "5", "1"), VIEWS),
    "read_kept": Question((), 100),
}
STRANDED = Question(("'5 seconds'", str(ASKED)), 4 * ASKED)
FARES: Mapping[str, Question] = {
    "read_fares": Question((NAMES, str(ASKED), "'1 day'", str(ASKED), "true"), 17 * ASKED),
}


def _asked_by(role: Role, who: str, questions: Mapping[str, Question]) -> dict[str, Question]:
    """Have a role ask what several ask; who: its first parameter."""
    return {
        role.prefix + name: replace(question, values=(who, *question.values))
        for name, question in questions.items()
    }


QUESTIONS: Mapping[str, Question] = {
    # claiming
    "read_arrivals": Question((str(2 * (ROWS - 2 * LANES - ASKED)), str(ASKED)), ASKED),
    "read_gaps": Question(
        (f"ARRAY[1, {_seq(HOT)}]", f"ARRAY[{ASKED}, {_seq(HOT) + ASKED}]", "50"), 2 * ASKED
    ),
    "sweep_lanes": Question((MERCHANT, str(ASKED)), ASKED),
    "create_lanes": Question(("ARRAY['new1', 'new2']",), 2),
    "check_writable": Question(()),
    "lease_lanes": Question((NAMES, _each("9", "bigint"), "'30 seconds'", "'somebody'"), ASKED),
    "read_runs": Question(
        (NAMES, *[_each(most, "bigint") for most in ("0", "3", "65536")], STARTED_AT), 3 * ASKED
    ),
    "read_endpoints": Question((NAMES,), ASKED),
    "read_recalls": Question(()),
    # routing
    "route": Question(
        (f"'{HOT_ONE}'", "0", "pg_postmaster_start_time()", "0", "0", str(3 * ASKED))
        + ("1 << 21", "'30 seconds'", NOW),
        3 * ASKED,
    ),
    "hand_on": Question(
        (
            _listed([LEFT_FROM + ASKED // 2 + n for n in range(ASKED)]),
            _listed([ASKED // 2 + n if n < ASKED // 2 else "NULL" for n in range(ASKED)]),
            _each(f"'{LEFT_ONE}'", "text"),
            NOW,
        ),
        ASKED,
    ),
    "find_strays": Question((str(ASKED), "1 << 21", SEQS), ASKED),
    "find_alone": Question(()),
    "serve_unrouted": Question(()),
    "become_direct": Question((f"'{HOT_ONE}'",)),
    # retrying
    "find_due_lanes": Question(("'-infinity'", "''", str(ASKED)), ASKED),
    "lock_longest_due_lanes": Question((str(ASKED),), ASKED),
    "lock_due_lanes_of": Question((NAMES,), ASKED),
    "claim_retries": Question((NAMES, "2", str(ASKED), "'30 seconds'", SEQS, "'here'"), 2 * ASKED),
    "read_claimed": Question((SEQS, SEQS), ASKED),
    "plan_retries": Question((f"{NAMES} || '{OWING_ONE}'::text", "2", SEQS), ASKED),
    "mend_retries": Question((MERCHANT, str(ASKED)), ASKED),
    # unreadable
    "read_next": Question((MERCHANT, "0")),
    "name_due": Question((NAMES, "2", SEQS), 2 * ASKED),
    "find_row": Question((str(_seq(FIRST_OF_LANES)),)),
    "try_rows": Question((SEQS,), ASKED),
    "close_row": Question((str(_seq(FIRST_OF_LANES)), IN_OUTBOX)),
    "look_later": Question((f"{NAMES} || '{OWING_ONE}'::text", "'15 seconds'"), ASKED),
    # suspending
    "find_to_suspend": Question(("'1 hour'", "20", "200", str(ASKED)), ASKED),
    "suspend_lanes": Question((NAMES, "'1 hour'", "'1 hour'"), ASKED),
    "lift_suspensions": Question((str(ASKED),), ASKED),
    "lift_all_suspensions": Question((str(ASKED),), ASKED),
    "pick_trials": Question((str(ASKED), str(ASKED), "'1 hour'"), ASKED),
    "read_suspension": Question((MERCHANT, "1::smallint")),
    # recording
    "record": RECORD,
    "read_unwritten": Question((SEQS, NAMES, IDS, FENCES, ARE_RETRIES, STATES), ASKED),
    "record_late": Question(
        (str(_seq(FIRST_OF_LANES)), IN_OUTBOX, FIRST, "1::smallint", "'schedule'", NOW, "5", "200::smallint")
        + ("'delivered'", NOW, "true", "NULL", "NULL")
    ),
    # control
    "lock_control": Question(()),
    "await_control": Question(()),
    "next_commands": Question(("ARRAY[1, 2]", "500", "true", "true"), ASKED),
    "take_command": Question((WAITING,)),
    "take_cancels": Question((NAMES, "5", "ARRAY[1, 2]"), ASKED),
    "reject_overtaken": Question(("ARRAY[1, 2]", "-14004", "'since'"), ASKED),
    "read_command": Question(("1",)),
    "finish_command": Question(("1", "'done'", "'{}'", "NULL", "NULL", "NULL")),
    "finish_commands": Question(
        (
            *(
                _listed([number + 1 for number in range(ASKED)]),
                _each("'done'", "text"),
                _each("'{}'", "jsonb"),
            ),
            *(_each("NULL", "integer"), _each("NULL", "text")),
        ),
        ASKED,
    ),
    "mark_running": Question(("1", "'30 seconds'", "'{}'", "NULL")),
    "lock_lanes_of": Question((IDS,), ASKED),
    "recall_lanes": Question((NAMES,), ASKED),
    "pause_lane": Question((MERCHANT, "true", "NULL")),
    "pause_everything": Question(("true",)),
    "find_configured": Question((MERCHANT, "NULL")),
    "is_everything_paused": Question(()),
    "read_sample": Question(("'refund.created'",)),
    "set_url": Question((MERCHANT, "'https://example.com/new'", WAITING)),
    "log_test_event": Question(
        ("gen_random_uuid()", MERCHANT, NOW, "'{}'", "'delivered'", "NULL", NOW, "5", "200::smallint")
        + ("'delivered'", NOW, "NULL", "NULL")
    ),
    # reopening
    "run_retry_now": Question((str(_seq(HOT)),)),
    "reopen_delivery": Question((str(LOGGED), FINISHED_AT, LOGGED_FOR, LOGGED_FOR)),
    "is_object_lost": Question((str(LOGGED), FINISHED_AT, LOGGED_FOR)),
    "wake_lanes": Question((NAMES, _each("9", "bigint")), ASKED),
    "find_deliveries": Question((f"{IDS} || {LOGGED_IDS}",), 2 * ASKED),
    "name_deliveries": Question((IDS,), ASKED),
    "cancel_deliveries": Question((SEQS,), ASKED),
    "count_failed": Question(("NULL", LONG_AGO, "'infinity'", str(ASKED), "NULL"), ASKED),
    "reopen_failed": Question((*RANGE, str(ASKED), "NULL"), ASKED),
    "count_waiting": Question((SEQS,), ASKED),
    "find_next_failed": Question((*RANGE, "NULL")),
    # recovering
    "read_stop": Question(("1",)),
    "find_waiting": Question(
        ("NULL", "0", "'infinity'", "NULL", "NULL", NOW, "7", "1", str(ASKED), str(ASKED)), 2 * ASKED
    ),
    "run_waiting_now": Question((SEQS,), ASKED),
    "find_finished": Question(
        (LOGGED_FOR, "0", *DAYS, LONG_AGO, "'infinity'", KINDS, "NULL", "NULL", NOW, "1")
        + (str(ASKED), str(ASKED)),
        2 * ASKED,
    ),
    "reopen_finished": Question((*IN_LOG,), ASKED),
    "find_skippable": Question(
        (
            MERCHANT,
            "0",
            LONG_AGO,
            "'infinity'",
            "ARRAY['charge.succeeded']",
            "'ch_0123456789'",
            "1",
            str(ASKED),
            str(ASKED),
        ),
        2 * ASKED,
    ),
    "lock_and_recall_lanes": Question((NAMES,), ASKED),
    "skip_deliveries": Question((SEQS,), ASKED),
    # upkeep
    "read_schema": Question(()),
    "advance_sequence": Question(("'api_key_id_seq'", "4000000000000000000")),
    "awaits_standby": Question(()),
    "read_role": Question(()),
    "read_encoding": Question(()),
    "read_gauges": Question((str(ASKED),), 2 * ASKED),
    "read_oldest_pending": Question(("0", str(_seq(HOT)), "''", str(ASKED)), ASKED),
    "read_partitions": Question((), 100),
    "read_today": Question(()),
    "note_milestone": Question(()),
    "forget_milestones": Question((NOW + " - interval '1 day'",)),
    "may_read_secrets": Question(()),
    # clock
    "correct_lanes": Question(
        (MERCHANT, str(ASKED), "'30 seconds'", "ARRAY[interval '1 minute']", "'1 hour'", "'30 seconds'"),
        3 * ASKED,
    ),
    # administration
    "name_person": Question(("'cli:ana'",)),
    "insert_endpoint": Question(("'new'", "'https://example.com/'", "'\\x00'", "'k1'")),
    "lock_endpoints": Question((MERCHANT,)),
    "update_endpoint_url": Question((MERCHANT, "1", "'https://example.com/'")),
    "rotate_secret": Question((MERCHANT, "1", "'\\x00'", "'k1'", "NULL")),
    "lock_held": Question((MERCHANT, "1"), 3),
    "delete_endpoint": Question((MERCHANT, "1")),
    "count_owed": Question((MERCHANT, "1", str(ASKED)), ASKED),
    "may_read_excerpts": Question(()),
    "find_pause_of": Question((_uuid(LOGGED),)),
    "stop_command": Question(("1", "'somebody'")),
    "insert_command": Question(("'pause'", "NULL", "NULL", "'{}'", "'somebody'")),
    "list_dispatchers": Question((str(ASKED),), ASKED),
    "withdraw_command": Question((WAITING, "'somebody'")),
    "read_pause_of_everything": Question(()),
    "database_time": Question(("'1 day'",)),
    "replace_sealed_secrets": Question((NAMES, *_secrets("'\\x00'"), *_secrets("'\\x01'")), ASKED),
    # installation
    "read_installation": Question(()),
    "name_installation": Question(("'prod-eu1'",)),
    "adopt_installation": Question(("'prod-eu1'", "'somebody'")),
    "read_names": Question(()),
    # inventory
    "read_roles": Question((), 10),
    "read_inventory": Question((), 100),
    # keys
    "read_key_checks": Question(("ARRAY['k1', 'k2']",), 2),
    "insert_key_check": Question(("'k1'", "'\\x00112233445566778899aabbccddeeff'")),
    "confirm_sealing_key": Question(("'k1'", f"'\\x{'00' * 32}'", f"'\\x{'00' * 16}'")),
    "add_sealing_key": Question(("'k1'", f"'\\x{'00' * 32}'")),
    "read_public_halves": Question(("ARRAY['k1', 'k2']",), 2),
    # api_endpoints; more than one row allows for the catalogue, which functions read to plan anew
    "list_own_endpoints": Question((OWNER,), VIEWS),
    "count_own_owed": Question((OWNER, "1::smallint", str(ASKED)), ASKED),
    "read_current_sealing_key": Question(()),
    "own_put_endpoint": Question(
        (OWNER, "NULL", "'https://example.com/new'", "NULL", "NULL", "NULL", "true", "NULL"), 3
    ),
    "own_set_order": Question((OWNER, "NULL", "NULL"), 3),
    "own_rotate_secret": Question((OWNER, "NULL", f"'\\x{'00' * 97}'", "'hpke1:k1'", "'1 hour'", "true"), 3),
    "own_remove_endpoint": Question((OWNER, "NULL"), 3),
    "own_command": Question((OWNER, "'retry'", _uuid(LOGGED - 1), "NULL", "NULL", "NULL"), 4),
    # administration
    "read_lock_capacity": Question((), 10),
    "list_long_transactions": Question(("'15 minutes'", "10"), 100),
    "may_all_make_temporary": Question(()),
    "missing_partitions": Question(("ARRAY['webhook.delivery_log']", "7"), 100),
    "is_known_merchant": Question((MERCHANT,)),
    # notices
    "may_report": Question(("1000",)),
    "report_failures": Question(("10000", "500"), ASKED),
    "report_failing": Question(("'1 hour'", "500")),
    "report_recovered": Question(("500",)),
    "purge_unreported": Question(("'2 hours'",)),
    # command
    **_asked_by(COMMAND_LINE, "NULL", {"read_command": Question((WAITING,), 2)}),
    **_asked_by(PARTNER_API, READER, {"read_command": Question((WAITING,), VIEWS)}),
    # attempts, delivery
    **_asked_by(COMMAND_LINE, "NULL", DELIVERY),
    **_asked_by(CONSOLE, SESSION, DELIVERY),
    **_asked_by(PARTNER_API, READER, {"read_attempts": Question((_uuid(LOGGED - 1), "1000"), VIEWS)}),
    # fares
    **_asked_by(COMMAND_LINE, "NULL", FARES),
    **_asked_by(CONSOLE, SESSION, {**FARES, "find_stranded": STRANDED}),
    # insight
    "find_charge": Question(("'ch_0123456789'", "NULL", str(ASKED)), ASKED),
    "read_secret": Question((MERCHANT, "1")),
    "read_backlog": Question((str(ASKED),), 2 * ASKED),
    "read_owing": Question((str(ASKED),), 2 * ASKED),
    "read_sizes": Question((), 100),
    "count_commands": Question((), 3 * ASKED),
    # api_tokens
    # Asked first of all functions that read tables: what it compiles reads the catalogue.
    "admit": Question((TOKEN, "600", "'1 minute'"), 4),
    "admit_with_endpoint": Question((TOKEN, "600", "'1 minute'"), 5),
    "issue": Question(
        (
            f"'{CLIENT}'",
            "sha256('s7')",
            "sha256('new')",
            "'1 hour'",
            "ARRAY['client:7', 'new', 'ip:7']",
            "ARRAY[30, 30, 60]",
            "ARRAY['1 minute', '1 minute', '1 minute']::interval[]",
            "ARRAY[false, false, false]",
        )
    ),
    "note_use": Question(("7",), 2),
    "find_bearer": Question((READER,), 2),
    # api_limits
    "take": Question(
        (
            "ARRAY['key:7', 'card:7', 'new']",
            "ARRAY[600, 10, 5]",
            "ARRAY[interval '1 minute', '15 min', '1 min']",
        )
        + ("ARRAY[false, true, false]", "NULL"),
        3,
    ),
    "release": Question(("'card:7'", "true", NOW)),
    "has_api_rows": Question(()),
    "clear_tokens": Question(("'1 minute'", str(ASKED)), ASKED),
    "clear_requests": Question(("'1 minute'", str(ASKED)), ASKED),
    "clear_kept_bytes": Question(("'1 minute'", str(ASKED)), ASKED),
    "clear_usage": Question(("'key:5'", "'1 minute'", str(ASKED)), ASKED),
    "clear_card_attempts": Question(("'card:5'", "'1 minute'", str(ASKED)), ASKED),
    # api_keys
    "create_api_key": Question((MERCHANT, "'new'", "sha256('new')", "'shop'", "'cli:ana'")),
    "revoke_api_key": Question((f"'{CLIENT}'", "'cli:ana'")),
    # event_types
    "retire_event_type": Question(("'refund.created'", "'ana'")),
    "read_hold": Question(()),
    # api_deliveries
    "list_own_deliveries": Question((READER, NEWEST, *OF_OWN, str(ASKED)), ASKED),
    "list_own_failed": Question((READER, NEWEST, *OF_OWN[1:], str(ASKED)), ASKED),
    # Whatever one charge has is found: here the charge of all that is owed would be.
    "list_own_deliveries_of_charge": Question((READER, NEWEST, *OF_OWN, "'ch_none'", str(ASKED)), 2),
    "list_own_deliveries_of_event": Question(
        (READER, NEWEST, *OF_OWN, "NULL", _uuid(LOGGED - 1), str(ASKED)),
        VIEWS + 2,  # for the lanes, who reads is asked twice more
    ),
    "read_own_delivery": Question((READER, _uuid(LOGGED - 1)), VIEWS),
    "read_cursor_key": Question(()),
    # api_charges
    "read_own_charge": Question((READER, "'ch_none'"), VIEWS),
    "are_charges_indexed": Question(()),
    # api_requests
    "begin_request": Question((OWNER, REQUEST), 5),
    "keep_request": Question(
        (OWNER, REQUEST, "sha256('')", "NULL", "200::smallint", "'en'", "'{}'", "NULL", "'1 day'"), 3
    ),
    "settle_request": Question((str(KEY), REQUEST, "gen_random_uuid()", "200::smallint", "'en'", "'{}'"), 3),
    "forget_request": Question((str(KEY), REQUEST, "gen_random_uuid()"), 3),
    # api_events
    "list_own_events": Question((READER, "NULL", "NULL", "NULL", str(ASKED), "1048576"), ASKED),
    "is_feed_indexed": Question(()),
    # console_accounts; as those of api_endpoints, what functions read to plan anew counts as rows
    "add_account": Question(("'anna'", "'viewer'", "false", *NEW_PASSWORD, "'cli:ana'"), 3),
    "set_account_password": Question(("'oleg'", *NEW_PASSWORD, "'cli:ana'"), 4),
    "set_account_role": Question(("'oleg'", "'viewer'", "'cli:ana'"), 3),
    "set_account_disabled": Question(("'oleg'", "true", "'cli:ana'"), 4),
    "create_sign_in_code": Question(("'oleg'", "sha256('new')", "'cli:ana'"), 3),
    "has_console_rows": Question(()),
    "clear_sessions": Question(("'1 minute'", str(ASKED)), ASKED),
    "clear_codes": Question(("'1 minute'", str(ASKED)), ASKED),
    "clear_failures": Question(("'1 minute'", str(ASKED)), ASKED),
    # console_sessions
    "sign_in_parameters": Question(("'person7'",), 2),
    "sign_in_wait": Question(("'person7'", ADDRESS), 1),
    "sign_in": Question(("'person7'", PROOF, "sha256('new')", ADDRESS, FIREFOX), 5),
    "sign_in_by_code": Question(("sha256('7')", "sha256('new')", ADDRESS, FIREFOX), 5),
    "sign_in_by_proxy": Question(("'person7'", "sha256('new')", ADDRESS, FIREFOX), 4),
    "read_person": Question((SESSION, "true"), 3),
    "sign_out": Question((SESSION,), 4),
    "revoke_sessions": Question((SESSION,), 4),
    "read_own_sessions": Question((SESSION, "50"), ASKED),
    "revoke_session": Question((SESSION, "sha256('')"), ASKED),
    "keep_preferences": Question((SESSION, "'uz'", "'UTC'", "'dark'"), 4),
    "change_password": Question((SESSION, PROOF, *NEW_PASSWORD), 5),
    # console_actions
    "read_key_to_seal_with": Question(()),
    "put_endpoint": Question(
        (SESSION, MERCHANT, "'https://example.com/new'", "NULL", "NULL", "NULL", "true", "1::smallint"), 5
    ),
    "add_merchants_endpoint": Question(
        (SESSION, "'new'", "'https://example.com/2'", f"'\\x{'00' * 97}'", "'hpke1:k1'", "'two'", "NULL"), 5
    ),
    "set_order_of": Question((SESSION, MERCHANT, "NULL", "1::smallint"), 5),
    "rotate_secret_of": Question(
        (SESSION, MERCHANT, f"'\\x{'00' * 97}'", "'hpke1:k1'", "'1 hour'", "true", "1::smallint"), 5
    ),
    "remove_endpoint": Question((SESSION, MERCHANT, "1::smallint"), 5),
    "give_command": Question((SESSION, "'pause'", MERCHANT, "NULL", "'{}'"), 5),
    "withdraw_given_command": Question((SESSION, WAITING), 5),
    "stop_given_command": Question((SESSION, "1"), 5),
    "create_merchants_api_key": Question((SESSION, MERCHANT, "'new'", "sha256('new')", "'shop'"), 5),
    "revoke_merchants_api_key": Question((SESSION, f"'{CLIENT}'"), 5),
    # heartbeat
    "note_dispatcher": Question(
        ("'d7'", "'h'", "'1'", "1", "1", "ARRAY[]::text[]", "ARRAY[]::text[]")
        + ("ARRAY['delivered', 'timeout']", "ARRAY[1, 2]", "'{}'", "21"),
        2,
    ),
    "remove_dispatcher": Question(("'d7'", "ARRAY['delivered', 'timeout']", "ARRAY[1, 2]"), 2),
    # lost
    "note_lost": Question((IDS, NAMES, SEQS, _each("clock_timestamp()", "timestamptz"), ARE_RETRIES), ASKED),
    "find_lost": Question(("gen_random_uuid()",)),
    "note_chunk": Question(("7", SEQS)),
    # console_...
    "is_somebody": Question((SESSION,), 2),
    "show_counts": Question((SESSION, str(ASKED)), 5 * ASKED),
    "show_oldest_waiting": Question((SESSION, str(ASKED), str(ASKED)), 2 * ASKED),
    "show_dispatchers": Question((SESSION, "'35 seconds'", str(ASKED)), ASKED),
    "show_attempts_by_step": Question(
        (SESSION, f"{NOW} - interval '{ASKED} minutes'", "'15 minutes'"), ASKED
    ),
    "show_merchants_by_id": Question((SESSION, MERCHANT, f"'{NAMED}'", f"'{NAMED}~'", str(ASKED)), ASKED),
    "show_paused_merchants": Question((SESSION, MERCHANT, f"'{NAMED}'", f"'{NAMED}~'", str(ASKED)), ASKED),
    "show_merchants_behind": Question(
        (SESSION, LONG_AGO, "''", f"'{NAMED}'", str(ASKED), str(ASKED), str(ASKED)), 2 * ASKED
    ),
    "show_merchants_by_volume": Question(
        (SESSION, NEWEST, NEWEST, "''", f"'{NAMED}'", str(ASKED), str(ASKED)), 2 * ASKED
    ),
    "show_merchant": Question((SESSION, f"'{HOT_ONE}'"), VIEWS),
    "show_endpoints": Question((SESSION, f"'{HOT_ONE}'"), VIEWS),
    "show_failed_of": Question((SESSION, NAMES, "'1 day'", str(ASKED)), 2 * ASKED),
    "show_now": Question((SESSION,), VIEWS),
    "show_latest_attempts": Question((SESSION, MERCHANT, "20"), 20),
    "show_api_keys": Question((SESSION, MERCHANT, "20"), VIEWS),
    "show_all_api_keys": Question((SESSION, NEWEST, "20"), VIEWS),
    "show_merchant_of_key": Question((SESSION, "'client'"), VIEWS),
    "show_numbers": Question((SESSION, LONG_AGO, NOW, MERCHANT), VIEWS),
    "show_deliveries": Question((SESSION, NEWEST, "0", *ALL_MATCH, LOOKED, str(ASKED), "false"), 2 * ASKED),
    "show_deliveries_of_merchant": Question(
        (SESSION, MERCHANT, NEWEST, "0", *ALL_MATCH, LOOKED, str(ASKED), "false", "1"), 2 * ASKED
    ),
    "show_failed_deliveries": Question(
        (SESSION, "NULL", NEWEST, *ALL_MATCH[1:], LOOKED, str(ASKED), "true"), 2 * ASKED
    ),
    # Whatever one charge has is found: here the charge of all that is owed would be.
    "show_few_deliveries": Question(
        (SESSION, _uuid(LOGGED), "'ch_none'", "NULL", NEWEST, *ALL_MATCH, str(ASKED), "false", "NULL"), VIEWS
    ),
    "is_charge_shown": Question((SESSION,), VIEWS),
    "show_payload": Question((SESSION, _uuid(LOGGED), str(LOGGED)), VIEWS),
    "show_commands_around": Question(
        (SESSION, MERCHANT, LONG_AGO, NOW, str(ASKED), str(ASKED), "1"), 3 * ASKED
    ),
    "show_commands_that_sent": Question((SESSION, "1", _uuid(LOGGED), f"ARRAY[{NOW}]", str(ASKED)), ASKED),
    "show_recovery": Question(
        (SESSION, MERCHANT, NEWEST, LONG_AGO, "'infinity'", LONG_AGO, NOW, SENT_AGAIN, "NULL", "NULL")
        + ("false", "7", "ARRAY['failing']", "NULL", NEWEST, str(ASKED), "10"),
        3 * ASKED,
    ),
    "show_skip": Question(
        (SESSION, f"'{HOT_ONE}'", LONG_AGO, NOW, "NULL", "'ch_0123456789'", "1", str(ASKED), "10"), 2 * ASKED
    ),
    "show_states": Question((SESSION, f"ARRAY[{_uuid(LOGGED)}]", "'test'"), VIEWS),
    "show_commands": Question((SESSION, NEWEST, *UNFILTERED, LOOKED, str(ASKED)), 2 * ASKED),
    "show_command": Question((SESSION, WAITING), VIEWS),
    "show_command_events": Question((SESSION, "7", "100", "false", str(ASKED), str(ASKED)), 2 * ASKED),
    "show_health": Question((SESSION, str(ASKED)), 2 * ASKED),
    "show_missing_partitions": Question((SESSION, "3"), 100),
    "show_suspended": Question((SESSION, str(ASKED)), 2 * ASKED),
    "show_urls": Question((SESSION, str(ASKED)), 2 * ASKED),
    # chosen_indexes
    "lock_chosen_indexes": Question(()),
    "choose_indexes": Question(("NULL", "NULL")),
    "has_log_index": Question(("'feed'",)),
    "read_unindexed": Question(("'feed'",), 100),
}

READ_WHOLE: Mapping[str, str] = {
    "correct_others": "it looks at all dispatchers, once after the clock was set",
    "preview_recovery": "it counts a range of time before it is sent again, and is planned for what is given",
    "count_given_up_later": "as preview_recovery",
    "preview_skip": "it counts what is owed, as far as it is told to",
    "read_unknown_keys": "it looks at all secrets",
    "read_sequences": "the outbox's highest number may stand behind dead ones that no vacuum has taken yet",
    "purge_control": "every hour, and what it looks for has no index: a table of commands given by hand",
    "list_endpoints": "all endpoints are asked for",
    "add_endpoint": "it looks at all dispatchers of the last day, and endpoints are added by hand",
    "name_waiting_rows": "it looks at all lanes",
    "find_stranded": "it looks at all lanes",
    "list_routed": "it looks at all lanes",
    "list_with_several": "it looks at all lanes with a number",
    "list_suspended": "the view's rows are counted for `check`",
    "set_order": "it looks at all dispatchers of the last day, and an order is changed by hand",
    "read_endpoint_history": "for an operator: it may go through the audit where statistics call it empty",
    "list_commands": "its conditions are optional, and commands are given by hand",
    "list_deliveries": "its conditions are optional, and it is planned for what is given",
    "own_add_endpoint": "as set_order: endpoints are added by hand",
    "set_types": "it looks at all dispatchers of the last day, and filters are changed by hand",
    "sample_sealed_secrets": "it looks at all secrets for those before the newest",
    "set_names": "it looks at all dispatchers of the last day, once in an installation's life",
    "read_sealed_secrets": "all secrets are tried, a thousand at a time",
    "read_owed": "it counts all that is owed, for somebody who is about to rename the database",
    "count_secrets": "it counts all secrets",
    "read_secrets_of_other_keys": "it looks for secrets of other keys",
    "list_accounts": "all accounts are asked for",
    "list_event_types": "all are asked for, and they are made by hand",
    "add_event_type": "it looks at all dispatchers of the last day, and types are made by hand",
    "list_api_keys": "its condition is optional, and keys are made by hand",
    "count_lanes": "it looks at all lanes",
    "release_lanes_of": "it looks at all lanes, for a process that has died",
    "release_retries_of": "it looks at all that is in flight, for a process that has died",
    "read_holders": "it looks at all lanes",
    "find_whoever_failed": "it looks at all lanes",
    "find_merchants": "it looks at all merchants",
    "count_recent": "its index is of blocks (BRIN); test_insight_cost.py says what it reads",
    "measure_lag": "as count_recent",
    "count_arrivals": "as show_lag",
    "show_lag": "it may sort a partition that statistics call empty; test_console_read_cost.py has its cost",
    "console_find_whoever_failed": "as show_lag",
    "show_audit": "as read_endpoint_history",
    "show_audit_of_merchant": "as read_endpoint_history",
    "show_changes": "as read_endpoint_history",
    "read_lost": "it says of all that was noted",
    "forget_noted": "every half hour: of dispatchers there are few, all else is found by its time",
}
"""Statements that may read a table as a whole, and why."""

SUBJECTS: Sequence[tuple[str, Role | None]] = (
    ("claiming", None),
    ("routing", None),
    ("retrying", None),
    ("suspending", None),
    ("unreadable", None),
    ("recording", None),
    ("control", None),
    ("reopening", None),
    ("recovering", None),
    ("upkeep", None),
    ("clock", None),
    ("administration", None),
    ("previewing", None),
    ("chosen_indexes", None),
    ("insight", None),
    ("attempts", COMMAND_LINE),
    ("attempts", CONSOLE),
    ("attempts", PARTNER_API),
    ("delivery", COMMAND_LINE),
    ("delivery", CONSOLE),
    ("command", COMMAND_LINE),
    ("command", PARTNER_API),
    ("fares", COMMAND_LINE),
    ("fares", CONSOLE),
    ("keys", None),
    ("installation", None),
    ("inventory", None),
    ("notices", None),
    ("api_tokens", None),
    ("api_limits", None),
    ("api_keys", None),
    ("event_types", None),
    ("api_endpoints", None),
    ("api_deliveries", None),
    ("api_events", None),
    ("api_charges", None),
    ("api_requests", None),
    ("heartbeat", None),
    ("lost", None),
    ("numbers", None),
    ("console_reading", None),
    ("console_overview", None),
    ("console_merchants", None),
    ("console_deliveries", None),
    ("console_delivery", None),
    ("console_previews", None),
    ("console_commands", None),
    ("console_health", None),
    ("console_accounts", None),
    ("console_sessions", None),
    ("console_actions", None),
)
"""Files of statements, and for which role each is read, where that makes a difference."""
STATEMENTS = {each.name: each for subject in SUBJECTS for each in load(*subject).values()}
