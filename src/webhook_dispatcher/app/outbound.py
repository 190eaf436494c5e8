"""Which HTTP client sends: our own, or aiohttp's where the operator wants it."""

from contextlib import AbstractAsyncContextManager

from webhook_dispatcher.domain import ports
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.transport.aiohttp_sender import AiohttpSender
from webhook_dispatcher.transport.guard import Guard
from webhook_dispatcher.transport.sender import Sender
from webhook_dispatcher.version import USER_AGENT


def make_sender(settings: Settings, guard: Guard) -> AbstractAsyncContextManager[ports.Sender]:
    """Make the sender that the settings ask for.

    Source: docs/adr/0010-a-client-of-our-own-on-llhttp.md.
    """
    kind: type[Sender] | type[AiohttpSender] = AiohttpSender if settings.sender == "aiohttp" else Sender
    return kind(
        guard,
        settings.attempt_timeout,
        USER_AGENT,
        settings.egress_ca_file,
        kept_connections=settings.max_lanes,
        proxy=settings.proxy(),
        nameservers=settings.egress_nameservers,
        excerpt_bytes=settings.response_excerpt,
    )
