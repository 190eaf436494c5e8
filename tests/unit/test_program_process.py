"""What Partner API and console of a laptop get of our environment: own addresses and databases, no keys."""

import socket

from webhook_dispatcher.local.program_process import environment_of


def test_it_gets_no_key_and_a_database_of_its_own() -> None:
    given = {
        "PATH": "/bin",
        "WEBHOOK_SECRET_KEYS": "k1:secret",
        "WEBHOOK_MIGRATION_DATABASE_URL": "postgresql://owner",
        "WEBHOOK_DATABASE_URL": "postgresql://webhook_dispatcher",
        "WEBHOOK_EGRESS_ALLOW_HTTP": "true",
    }
    assert environment_of(given, "postgresql://webhook_api") == {
        "PATH": "/bin",
        "WEBHOOK_DATABASE_URL": "postgresql://webhook_api",
        "WEBHOOK_EGRESS_ALLOW_HTTP": "true",
    }


def test_it_has_its_usual_address_another_where_that_is_taken_and_the_chosen_one_in_any_case() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = f"127.0.0.1:{taken.getsockname()[1]}"
        name = "WEBHOOK_API_ADDRESS"
        assert environment_of({}, "", **{name: usual})[name] == "127.0.0.1:0"
        assert environment_of({name: usual}, "", **{name: usual})[name] == usual
    assert environment_of({}, "", **{name: usual})[name] == usual
