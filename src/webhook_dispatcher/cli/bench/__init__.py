"""`bench`: what this program does on one's own server, in a database that it makes and drops."""

import asyncio
import base64
import secrets
from collections.abc import Mapping
from typing import Annotated

import typer
import uvloop

from webhook_dispatcher.app import signals
from webhook_dispatcher.cli.bench.figures import Figures, measure
from webhook_dispatcher.cli.bench.own_database import NAME, located, own_database
from webhook_dispatcher.cli.options import AsJson
from webhook_dispatcher.cli.output import print_facts, print_json
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.errors import MAY_NOT, StatementRefused, UserError
from webhook_dispatcher.domain.signing import KEY_BYTES
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.connection import translated

PASSED_ON = ("WEBHOOK_PROCESSES", "WEBHOOK_DATABASE_TLS")
"""Of our environment: nothing that could lead to another database."""


def bench(
    context: typer.Context,
    database_url: Annotated[
        str,
        typer.Option(
            "--database-url",
            envvar="BENCH_DATABASE_URL",
            metavar="postgresql://...",
            help="The server, as a superuser or who may make databases and roles; other users cannot see a "
            "password in a variable.",
        ),
    ],
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, max=600, help="To insert for, and then to measure lags for.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Measure inserts, deliveries, lags, WAL and bytes an event on your own server, in half a minute.

    It makes the database `webhook_bench` and roles that are missing, and drops both; all else stays as it is,
    but shares disk and processor. It takes about three times --seconds. WEBHOOK_PROCESSES may be set.
    """
    given = session_of(context).environ
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            with translated():
                figures = runner.run(_bench(given, database_url, seconds))
        except StatementRefused as error:
            if error.sqlstate != MAY_NOT:
                raise
            raise UserError(
                f"{error.detail}: connect as a superuser, or with CREATEDB, and CREATEROLE where roles are "
                "missing, and as a member of webhook_owner where that is there"
            ) from error
    if as_json:
        print_json(figures)
    else:
        print_facts((name.replace("_", " "), value) for name, value in figures.items())


async def _bench(given: Mapping[str, str], database_url: str, seconds: int) -> Figures:
    chosen = {
        **{name: given[name] for name in PASSED_ON if name in given},
        "WEBHOOK_DATABASE_URL": database_url,
        "WEBHOOK_SECRET_KEYS": "bench:" + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode(),
        "WEBHOOK_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
        "WEBHOOK_EGRESS_ALLOW_HTTP": "true",
        "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
        "WEBHOOK_SHUTDOWN_GRACE": "PT1S",
    }
    settings = load_settings(chosen)
    environ = {name: text for name, text in given.items() if not name.startswith("WEBHOOK_")}
    environ |= chosen | {"WEBHOOK_DATABASE_URL": located(database_url)}
    stopped = asyncio.Event()
    # Until all is taken away again: a second signal must not leave half of it behind.
    with signals.obeyed(stopped.set, lambda: None):
        async with own_database(settings.database_dsn(), _tell) as (dsn, asking):
            _tell(f"measuring in {NAME}, for some {3 * seconds} s; Ctrl-C ends it, and nothing is left")
            measuring = asyncio.create_task(measure(dsn, asking, settings.keyring(), seconds, environ))
            waiting = asyncio.create_task(stopped.wait())
            await asyncio.wait((measuring, waiting), return_when=asyncio.FIRST_COMPLETED)
            measuring.cancel()
            waiting.cancel()
            await asyncio.gather(measuring, waiting, return_exceptions=True)
    if measuring.cancelled():
        raise UserError("stopped before the end; nothing is left of it")
    return measuring.result()


def _tell(line: str) -> None:
    typer.echo(line, err=True)
