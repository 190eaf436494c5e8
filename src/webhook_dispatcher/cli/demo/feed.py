"""One line for each request that has ended, as many as can be read."""

from collections import deque
from collections.abc import Iterator

from rich.text import Text

from webhook_dispatcher.cli.demo.ledger import Request


def lines(unshown: deque[Request], most: int) -> Iterator[Text]:
    """Give the latest `most` of what nobody has seen, and how many came before these; forget all of it."""
    if (unseen := len(unshown) - most) > 0:
        yield Text(f"… {unseen} more", "dim")
    for request in list(unshown)[-most:]:
        yield line(request)
    unshown.clear()


def line(request: Request) -> Text:
    """Write a request as a line: event, merchant, attempt, answer, how long that took."""
    answer = "no answer" if request.status is None else str(request.status)
    is_accepted = request.status is not None and 200 <= request.status <= 299
    return Text.assemble(
        f"{request.type:<24} {request.merchant_id:<9} attempt {request.attempt}  ",
        (f"{answer:<9}", "green" if is_accepted else "red"),
        f" {request.ms:>5.0f} ms",
    )
