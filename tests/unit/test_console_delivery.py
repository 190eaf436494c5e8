"""A delivery's page: the head of its request."""

from dataclasses import replace

from tests.unit.test_timeline import DELIVERY
from webhook_dispatcher.console.pages.delivery import headers_of
from webhook_dispatcher.domain.event import SAMPLES
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.version import USER_AGENT


def test_the_head_of_a_request_is_shown_with_the_form_of_its_signature() -> None:
    assert dict(headers_of(DELIVERY, "https://m.example/hooks")) == {
        "POST": "https://m.example/hooks",
        "User-Agent": USER_AGENT,
        "Content-Type": "application/json; charset=utf-8",
        "Service-Event-Id": str(DELIVERY.event_id),
        "Service-Event-Type": "charge.created",
        "Service-Signature": "t=…,v1=…",
    }
    assert headers_of(DELIVERY, None)[0] == ("POST", "-")
    test = replace(DELIVERY, type="webhook.test")
    sent = [
        dict(headers_of(test, None, charge))["Service-Event-Type"]
        for charge in (b"{}", SAMPLES["charge.failed"])
    ]
    assert sent == ["webhook.test", "charge.failed"]


def test_the_head_is_called_by_the_installations_names() -> None:
    names = Names("Acme-", "Acme/2", ("service", "standard"))
    assert dict(headers_of(DELIVERY, None, names=names)) == {
        "POST": "-",
        "User-Agent": "Acme/2",
        "Content-Type": "application/json; charset=utf-8",
        "Acme-Event-Id": str(DELIVERY.event_id),
        "Acme-Event-Type": "charge.created",
        "Acme-Signature": "t=…,v1=…",
        "webhook-id": str(DELIVERY.event_id),
        "webhook-timestamp": "…",
        "webhook-signature": "v1,…",
    }
