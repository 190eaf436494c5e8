"""Settings are shown as they are written, and none that holds a secret."""

import pytest
from pydantic import SecretStr

from webhook_dispatcher.app.console import shown_settings
from webhook_dispatcher.settings import Settings, load_settings
from webhook_dispatcher.settings.fields import PREFIX
from webhook_dispatcher.settings.shards import Shard
from webhook_dispatcher.settings.shown import published

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


def test_a_dispatcher_tells_what_is_not_as_by_default_and_of_its_own() -> None:
    assert published(load_settings({**GIVEN, "WEBHOOK_LEASE": "PT30S"})) == {
        "WEBHOOK_RETRY_SCHEDULE": "PT1S,PT1M30S",
        "WEBHOOK_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8,10.0.0.0/8",
        "WEBHOOK_EGRESS_ALLOW_HTTP": "true",
    }


@pytest.mark.parametrize("name", Settings.model_fields)
def test_no_secret_is_told_whichever_setting_holds_it(name: str) -> None:
    holding: dict[str, object] = {
        "database_url": (Shard("eu1", SecretStr("postgresql://u:hidden@h/d")),),
        "migration_database_url": (Shard("eu1", SecretStr("postgresql://u:hidden@h/d")),),
        "secret_keys": SecretStr("k1:hidden"),
        "egress_proxy": SecretStr("http://u:hidden@proxy:3128"),
    }
    secrets = {each for each, field in Settings.model_fields.items() if "Secret" in repr(field.annotation)}
    assert secrets | {"database_url", "migration_database_url"} == set(holding)
    value = holding.get(name, "https://user:hidden@collector.example/path?a=1")
    told = published(Settings.model_construct().model_copy(update={name: value}))
    assert "hidden" not in str(told)
    assert (PREFIX + name.upper() in told) == (
        name not in holding and not name.startswith(("api_", "console_", "instance_dir", "secrets_dir"))
    )
