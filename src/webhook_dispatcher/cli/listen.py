"""`listen`: a merchant's receiver on this machine, to see what a daemon sends."""

import asyncio
import os
import signal
import tempfile
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from webhook_dispatcher.cli.names import parse_prefix
from webhook_dispatcher.cli.output import shown
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names, prefix_in
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.arrivals import Arrival, Signature, to_line
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.receiver import Receiver

if TYPE_CHECKING:
    from webhook_dispatcher.local.forwarding import Forwarder

VERDICTS = {
    Signature.RIGHT: "signature right",
    Signature.WRONG: "SIGNATURE WRONG",
    Signature.MISSING: "SIGNATURE MISSING",
    Signature.STALE: "SIGNATURE RIGHT BUT MORE THAN 300 S OFF",
    Signature.UNCHECKED: "signature not checked (no --secret)",
}


def parse_secret(text: str) -> Secret:
    """Read a signing secret as `endpoint set` prints it."""
    try:
        return Secret(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def listen(
    secret: Annotated[
        Secret | None,
        typer.Option(
            "--secret",
            envvar="LISTEN_SECRET",
            parser=parse_secret,
            metavar="whsec_...",
            help="Verify signatures with it; better given as a variable, which other users cannot see.",
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8090,
    https: Annotated[bool, typer.Option("--https", help="With a certificate made on the spot.")] = False,
    status: Annotated[
        int | None,
        typer.Option(
            "--status",
            min=200,
            max=599,
            help="What to answer; without, 200, or 401 to a wrong signature and 400 to a stale one.",
        ),
    ] = None,
    forward_to: Annotated[
        str | None,
        typer.Option(
            "--forward-to",
            metavar="URL",
            help="Send each on to a receiver on this machine, headers and body as they came, whatever the "
            "signature; show its answer, and answer with its status.",
        ),
    ] = None,
    header_prefix: Annotated[
        str,
        typer.Option(
            "--header-prefix", parser=parse_prefix, metavar="PREFIX", help="As `names show` has it."
        ),
    ] = DEFAULT_NAMES.header_prefix,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line instead.")] = False,
) -> None:
    """Receive on 127.0.0.1, at any path, verify signatures and print what arrives, until Ctrl-C."""
    if forward_to is not None and status is not None:
        raise typer.BadParameter(
            "--forward-to answers with the status that its receiver answers: leave out --status"
        )
    forwarder = None if forward_to is None else _forwarder(forward_to, port)
    with ExitStack() as stack:
        ca_file = None
        if https:
            ca_file = (
                Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webhook-listen-"))) / "ca.pem"
            )
        asyncio.run(_listen(secret, port, ca_file, status, forwarder, Names(header_prefix), as_json))


def _forwarder(url: str, port: int) -> "Forwarder":
    # Late: its HTTP client is not needed otherwise.
    from webhook_dispatcher.local.forwarding import Forwarder, fault_of

    if (fault := fault_of(url)) is not None:
        raise ConfigurationError(f"--forward-to: {fault}")
    if (urlsplit(url).port or 80) == port:
        raise ConfigurationError(f"--forward-to: port {port} is our own; choose another by --port")
    return Forwarder(url)


async def _listen(
    secret: Secret | None,
    port: int,
    ca_file: Path | None,
    status: int | None,
    forwarder: "Forwarder | None",
    names: Names,
    as_json: bool,
) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    def show(arrival: Arrival) -> None:
        if arrival.ended_at is not None:
            typer.echo(to_line(arrival) if as_json else described(arrival))
            prefix = prefix_in(arrival.headers)
            if prefix is not None and prefix != names.header_prefix.lower():
                typer.echo(
                    f"its headers begin with {prefix}, and not with {names.header_prefix}: "
                    f"give --header-prefix {prefix}",
                    err=True,
                )

    receiver = Receiver(
        tls=None if ca_file is None else server_context(ca_file),
        port=port,
        any_secret=secret,
        behaviour=Behaviour(status or 200),
        refuses_forgeries=status is None,
        forward=None if forwarder is None else forwarder.forward,
        keep=False,
        on_arrival=show,
        names=names,
    )
    async with AsyncExitStack() as stack:
        if forwarder is not None:
            await stack.enter_async_context(forwarder)
        try:
            await stack.enter_async_context(receiver)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ConfigurationError(f"--port: cannot listen on 127.0.0.1:{port}: {reason}") from None
        typer.echo(f"listening at {receiver.url('')}", err=True)
        allowances = "WEBHOOK_EGRESS_ALLOW_NETWORKS=127.0.0.0/8 " + (
            "WEBHOOK_EGRESS_ALLOW_HTTP=true" if ca_file is None else f"WEBHOOK_EGRESS_CA_FILE={ca_file}"
        )
        typer.echo(f"`endpoint set` and the daemon need {allowances}", err=True)
        await stopped.wait()


def described(arrival: Arrival) -> str:
    """Write an arrival for people: a line about it, then its body."""
    repeated = "" if arrival.attempt == 1 else f", arrival {arrival.attempt} of this event"
    lines = [
        f"/{arrival.merchant_id} {arrival.type or '(no type)'} {arrival.event_id or '(no id)'}: "
        f"{VERDICTS[arrival.signature]}, answered {arrival.status}{repeated}",
        *arrival.body.decode(errors="replace").splitlines(),
        *(arrival.answer or "").splitlines(),
    ]
    # What was sent may hold bytes that drive a terminal.
    return "\n".join(shown(line) for line in lines)
