"""The page that merchants are handed out: it leaves out no value, and its example signs as we do."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.external_programs import program
from webhook_dispatcher.domain.event import (
    CHARGE_TYPES,
    SAMPLE_CHARGE,
    TEST_EVENT_TYPE,
    FailedReason,
    Trigger,
)
from webhook_dispatcher.domain.signing import Secret, is_signed
from webhook_dispatcher.domain.verdict import Outcome

PAGE = (Path(__file__).parents[2] / "docs" / "merchants" / "index.md").read_text(encoding="utf-8")


def first_column(name: str) -> set[str]:
    """Return the values that the table under this name has."""
    table = PAGE.partition(f"| `{name}` |")[2].partition("\n\n")[0]
    return {value for row in table.splitlines() for value in re.findall(r"`([\w.]+)`", row.split(" | ")[0])}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("type", {*CHARGE_TYPES, TEST_EVENT_TYPE}),
        ("outcome", set(Outcome)),
        ("failedReason", set(FailedReason)),
    ],
)
def test_each_value_that_a_merchant_may_read_is_explained(name: str, values: set[str]) -> None:
    assert first_column(name) == values


def test_each_trigger_is_explained() -> None:
    told = " ".join(PAGE.split()).partition("`trigger` (")[2].partition(")")[0]
    assert set(re.findall(r"`(\w+)`: ", told)) == set(Trigger)


def test_its_example_signs_a_test_event_as_it_is_sent() -> None:
    [example] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    shown = example.replace("$(date +%s)", "1763626530").partition("curl")[0] + 'printf "%s\n" "$BODY" "$V1"'
    secret = "whsec_0123456789abcdef0123"
    asked = subprocess.run(
        [str(program("bash", "bash")), "-c", f"SECRET={secret}\n{shown}"],
        capture_output=True,
        text=True,
        check=True,
    )
    body, signature = asked.stdout.splitlines()
    assert json.loads(body)["data"]["object"] == json.loads(SAMPLE_CHARGE)
    assert is_signed(body.encode(), f"t=1763626530,v1={signature}", (Secret(secret),))
