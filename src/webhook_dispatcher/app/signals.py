"""Signals as two requests: end, and do not wait any longer."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGTERM, signal.SIGINT)
ENDING_ONLY = (signal.SIGHUP, signal.SIGQUIT)
"""A terminal that closes sends them, perhaps twice, and some images' stop signal is one: never impatience."""


@contextmanager
def obeyed(stop: Callable[[], None], cut_short: Callable[[], None]) -> Iterator[None]:
    """Obey an operator while entered: the first signal stops, a second SIGTERM or SIGINT cuts that short."""
    received = 0

    def receive() -> None:
        nonlocal received
        received += 1
        stop() if received == 1 else cut_short()

    with _handled(dict.fromkeys(STOPPING, receive) | dict.fromkeys(ENDING_ONLY, stop)):
        yield


@contextmanager
def obeyed_from_supervisor(stop: Callable[[], None], cut_short: Callable[[], None]) -> Iterator[None]:
    """Obey a supervisor while entered: SIGTERM stops, however often it comes, and SIGINT cuts that short.

    Others than the supervisor send SIGTERM too: the kernel when the supervisor dies, and whoever signals a
    whole control group. Together they must not count as impatience.
    """

    def receive_interrupt() -> None:
        stop()
        cut_short()

    stopping = dict.fromkeys((signal.SIGTERM, *ENDING_ONLY), stop)
    with _handled(stopping | {signal.SIGINT: receive_interrupt}):
        yield


@contextmanager
def _handled(handlers: dict[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)  # all is done: another one changes nothing
