"""No statement takes a merchant for one endpoint, or a lane's name for a merchant's id, without a word."""

import re
from collections.abc import Iterator
from importlib import resources

from webhook_dispatcher.storage.statements import Statement, parse_statements

READS_ENDPOINTS = re.compile(r"\b(?:webhook|role)\.(?:console_|own_)?endpoints?\b")
SAYS_WHICH = re.compile(
    r"\b(?:merchant_of|endpoint_of|lane_named|lane_of)\(|'\$platform '|\|\| ' '|endpoints\.number\b"
)
COMPARED_WITH_THE_PLATFORM = re.compile(r"(\S+) (?:=|<>) '\$platform'")
LOOKED_AT = {
    "it is given lanes": {
        "claiming.read_endpoints",
        "control.set_url",
        "administration.insert_endpoint",
        "administration.replace_sealed_secrets",
        "delivery.read_circumstances",
    },
    "it is about all endpoints": {
        "administration.count_secrets",
        "administration.read_sealed_secrets",
        "administration.read_secrets_of_other_keys",
        "keys.sample_sealed_secrets",
        "upkeep.read_unknown_keys",
    },
    "it asks for rights alone": {"api_endpoints.may_read_secrets"},
    "the merchant's own lane is asked too": {"administration.is_known_merchant"},
}
"""Statements that read endpoints and say nothing of lanes, and why they need not."""
OF_MERCHANTS = {
    "console_previews.show_recovery": {"looked.merchant_id"},
    "previewing.count_given_up_later": {"finished.merchant_id"},
    "previewing.preview_recovery": {"finished.merchant_id"},
    "recovering.find_finished": {"looked.merchant_id"},
    "recovering.find_waiting": {"looked.merchant_id"},
    "routing.route": {"$1"},
    "unreadable.close_row": {"logged.merchant_id"},
}
"""What is compared with the platform and is a merchant's id, as the log has it, or was converted before."""


def _statements() -> Iterator[tuple[str, Statement]]:
    folder = resources.files("webhook_dispatcher.storage").joinpath("sql")
    for file in folder.iterdir():
        subject = file.name.removesuffix(".sql")
        for statement in parse_statements(file.read_text(encoding="utf-8")).values():
            yield f"{subject}.{statement.name}", statement


STATEMENTS = dict(_statements())


def test_a_statement_that_reads_endpoints_says_which_of_a_merchants() -> None:
    say_nothing = {
        name
        for name, statement in STATEMENTS.items()
        if READS_ENDPOINTS.search(statement.text) and not SAYS_WHICH.search(statement.text)
    }
    assert say_nothing == set().union(*LOOKED_AT.values())


def test_a_lanes_name_is_not_compared_with_the_platforms() -> None:
    compared = {
        name: {found[1] for found in COMPARED_WITH_THE_PLATFORM.finditer(statement.text)}
        for name, statement in STATEMENTS.items()
    }
    unsaid = {
        name: {left for left in lefts if not left.startswith("webhook.merchant_of(")}
        for name, lefts in compared.items()
    }
    assert {name: lefts for name, lefts in unsaid.items() if lefts} == OF_MERCHANTS
