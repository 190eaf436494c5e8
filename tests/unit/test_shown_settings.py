"""The console shows settings as they are written, and none that holds a secret."""

from webhook_dispatcher.app.console import shown_settings
from webhook_dispatcher.settings import load_settings

GIVEN = {
    "WEBHOOK_DATABASE_URL": "postgresql://webhook_console:secret@localhost/charges",
    "WEBHOOK_RETRY_SCHEDULE": "PT1S,PT1M30S",
    "WEBHOOK_API_LIMITS": "client=7/PT1M key=0/PT1H",
    "WEBHOOK_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8,10.0.0.0/8",
    "WEBHOOK_EGRESS_ALLOW_HTTP": "true",
}


def test_what_is_shown_can_be_set_again_and_means_the_same() -> None:
    settings = load_settings(GIVEN)
    shown = {one.name: one.value for one in shown_settings(settings) if one.value}
    again = load_settings({**shown, "WEBHOOK_DATABASE_URL": GIVEN["WEBHOOK_DATABASE_URL"]})
    assert dict(again) == dict(settings)
    assert shown["WEBHOOK_RETRY_SCHEDULE"] == GIVEN["WEBHOOK_RETRY_SCHEDULE"]


def test_what_was_chosen_comes_first_and_a_password_is_not_shown() -> None:
    first = shown_settings(load_settings(GIVEN))[: len(GIVEN)]
    assert {one.name for one in first} == set(GIVEN)
    assert all(one.is_chosen for one in first)
    [database] = [one for one in first if one.name == "WEBHOOK_DATABASE_URL"]
    assert (database.value, database.is_secret) == ("", True)
