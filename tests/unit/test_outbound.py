"""Which HTTP client the settings choose."""

import pytest

from webhook_dispatcher.app.outbound import make_sender
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.transport.aiohttp_sender import AiohttpSender
from webhook_dispatcher.transport.guard import Guard
from webhook_dispatcher.transport.sender import Sender


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({}, Sender),
        ({"WEBHOOK_SENDER": ""}, Sender),
        ({"WEBHOOK_SENDER": "llhttp"}, Sender),
        ({"WEBHOOK_SENDER": "aiohttp"}, AiohttpSender),
        ({"WEBHOOK_SENDER": "AioHTTP"}, AiohttpSender),
    ],
)
def test_the_setting_chooses_the_client(environ: dict[str, str], kind: type) -> None:
    settings = load_settings(environ)
    assert type(make_sender(settings, Guard(settings.egress_policy()))) is kind


@pytest.mark.parametrize("kind", ["llhttp", "aiohttp"])
def test_either_client_keeps_as_much_of_an_answer_as_is_asked_for(kind: str) -> None:
    settings = load_settings({"WEBHOOK_SENDER": kind, "WEBHOOK_RESPONSE_EXCERPT": "512"})
    sender = make_sender(settings, Guard(settings.egress_policy()))
    assert isinstance(sender, (Sender, AiohttpSender))
    assert sender._excerpt_bytes == 512
