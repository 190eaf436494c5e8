"""`demo`: everything at work on this machine alone, and afterwards a comparison of what all sides saw."""

import asyncio
import shutil
import signal
import sys
import time
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console

from webhook_dispatcher.cli.demo import audit, cast, verdict
from webhook_dispatcher.cli.demo.scenes import Scenes
from webhook_dispatcher.cli.demo.stage import Stage, set_up
from webhook_dispatcher.cli.demo.view import View
from webhook_dispatcher.cli.failures import NAME
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.local.scratch import scratch_dir
from webhook_dispatcher.telemetry import logs

PREFIX = "webhook-demo-"
SETTLING = timedelta(seconds=120)
MAX_PROBLEMS_SHOWN = 20
MAX_EVENTS = 100_000
PLAIN_WIDTH = 120
NEXT = """\
next, with a Postgres of yours: "Ten minutes to a first delivery" in the docs
or with one of its own, the Partner API and the console:
{program} run --embedded"""


def demo(
    context: typer.Context,
    events: Annotated[
        int | None,
        typer.Option(
            "--events",
            envvar="DEMO_EVENTS",
            min=20,
            max=MAX_EVENTS,
            help="Stop after so many events and check everything; without, run until Ctrl-C.",
        ),
    ] = None,
) -> None:
    """Watch it at work: a database, six merchants, a receiver and a producer, all on this machine.

    Exits 0 when all that the receiver got agrees with the database, and 1 otherwise.
    """
    session = session_of(context)
    settings = session.settings()
    parent = settings.data_dir if "WEBHOOK_DATA_DIR" in session.environ else None
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    with scratch_dir(PREFIX, parent) as folder, (folder / "daemon.log").open("w") as log:
        logs.configure(settings.log_format, settings.log_level, log)
        console.print(f"starting a Postgres of its own in {folder}", soft_wrap=True)
        with (
            EmbeddedPostgres(folder, durable=False) as postgres,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            problems = runner.run(_perform(postgres, folder, dict(session.environ), console, events))
        if problems:
            _complain(console, problems, folder / "daemon.log")
    console.print(NEXT.format(program=_own_name()), soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def _own_name() -> str:
    """Return how a shell starts this program from where we are."""
    program = Path(sys.executable).with_name(NAME)
    if not program.exists():
        return f"{quote(sys.executable)} -m webhook_dispatcher"
    if shutil.which(NAME) == str(program):
        return NAME
    here = Path.cwd()
    return quote(str(program.relative_to(here) if program.is_relative_to(here) else program))


async def _perform(
    postgres: EmbeddedPostgres, folder: Path, environ: dict[str, str], console: Console, events: int | None
) -> list[str]:
    """Set everything up, play until the end or a signal, and return what was wrong."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    console.print(
        "making the schema, six merchants and their receiver, starting a daemon, the API and the console"
    )
    async with set_up(postgres, folder, environ, is_audited=events is not None) as stage:
        metrics = f"http://127.0.0.1:{stage.daemon.ops_port}/metrics"
        console.print(f"metrics at {metrics}, the daemon's log in {folder / 'daemon.log'}", soft_wrap=True)
        view = View(stage, console)
        started = time.monotonic()
        play = _endless(stage, view) if events is None else _bounded(stage, view, events)
        ended = await _first_to_end(play, view.run(), stopped.wait())
        if ended is not None:
            problems = await _problems_of(ended)
        elif events is not None:
            problems = [f"stopped before the end of {events} events; bodies and commands were not compared"]
        else:
            problems = []
        return await _conclude(stage, view, time.monotonic() - started, problems)


async def _first_to_end(*coroutines: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
    """Run them until one ends, cancel the others, and return that one; None if it is the last: a signal."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next((task for task in tasks[:-1] if task.done()), None)
    finally:
        unfinished = [task for task in tasks if not task.done()]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


async def _problems_of(ended: asyncio.Task[Any]) -> list[str]:
    try:
        return list(await ended)
    except UserError as error:
        return [str(error)]


async def _conclude(stage: Stage, view: View, seconds: float, problems: list[str]) -> list[str]:
    """Let what is in flight end, say what came of it all, and return all that is wrong."""
    view.say("ending what is in flight")
    await stage.drain()
    await view.conclude()
    found = verdict.judge(await audit.deliveries(stage), stage.ledger, stage.seqs)
    view.say(f"after {seconds:.0f} s, what the receiver got against what the database holds:")
    for line in found.lines():
        view.say(line)
    problems = [*problems, *found.problems()]
    view.say(f"verdict: {f'wrong in {len(problems)} ways' if problems else 'everything agrees'}")
    return problems


async def _endless(stage: Stage, view: View) -> list[str]:
    """Write events until cancelled; meanwhile play the scenes once."""
    view.say("Ctrl-C ends it, with a verdict")
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.producer().run())
        group.create_task(_play_scenes(stage, view))
    return []


async def _play_scenes(stage: Stage, view: View) -> None:
    try:
        await Scenes(stage, view.say).play()
    except UserError as error:
        view.say(f"a control command did not do what it should: {error}")


async def _bounded(stage: Stage, view: View, events: int) -> list[str]:
    """Write so many events, wait until nothing is owed, play the scenes, compare."""
    await stage.producer().run(events)
    view.say(f"{events} events are written; the rest is up to the retry schedule ({cast.RETRY_SCHEDULE})")
    await stage.until(lambda: _is_settled(stage), "nothing is owed any more", SETTLING)
    problems = audit.judge_schedule((await audit.deliveries(stage)).values())
    scenes = Scenes(stage, view.say)
    try:
        await scenes.play()
    except UserError as error:
        problems.append(str(error))
    found = await audit.deliveries(stage)
    problems += audit.judge_end(found.values(), scenes.cancelled)
    problems += audit.judge_arrivals(stage, found, scenes.cancelled, list(stage.receiver.arrivals))
    if len(found) < events:
        problems.append(f"{events} events were to be written, and {len(found)} are in the database")
    return problems


async def _is_settled(stage: Stage) -> bool:
    counts = await stage.count_by_state()
    return not any(states[State.PENDING] + states[State.PENDING_RETRY] for states in counts.values())


def _complain(console: Console, problems: list[str], log_file: Path) -> None:
    for problem in problems[:MAX_PROBLEMS_SHOWN]:
        console.print(f"WRONG: {problem}", soft_wrap=True, markup=False)
    if len(problems) > MAX_PROBLEMS_SHOWN:
        console.print(f"... and {len(problems) - MAX_PROBLEMS_SHOWN} more")
    console.print("the daemon's log ends:")
    for line in log_file.read_text().splitlines()[-20:]:
        console.print(line, soft_wrap=True, markup=False)
