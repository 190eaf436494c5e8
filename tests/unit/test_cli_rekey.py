"""`endpoint rekey`: every secret under the newest key, and nobody's change undone."""

import base64
import json
from typing import Any

import pytest

from tests.unit.fakes import administration
from tests.unit.fakes.administration import NOW, FakeAdministration
from tests.unit.test_cli_check import problems
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.check import examine
from webhook_dispatcher.cli.rekey import MAX_ROUNDS
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, Secret


def key(key_id: str) -> str:
    return f"{key_id}:{base64.b64encode(key_id.encode().ljust(32)).decode()}"


OLD, NEW, LOST = (Keyring.parse(key(key_id)) for key_id in ("old", "new", "lost"))


def text(merchant: str) -> str:
    return f"whsec_of-{merchant}".ljust(40, ".")


def seal(keyring: Keyring, merchant: str, secret: str | None = None) -> SealedSecret:
    return keyring.seal(merchant, Secret(secret or text(merchant)))


def session(database: FakeAdministration, *key_ids: str) -> CliContext:
    keys = ",".join(map(key, key_ids or ("new", "old")))
    return administration.session(database, WEBHOOK_SECRET_KEYS=keys)


class Rekey:
    """Runs the command and gives back exit code, JSON and errors."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, database: FakeAdministration, *key_ids: str) -> tuple[int, dict[str, Any], str]:
        code = main(["endpoint", "rekey", "--json"], session(database, *key_ids))
        out, err = self._capsys.readouterr()
        return code, json.loads(out), err


@pytest.fixture
def rekey(capsys: pytest.CaptureFixture[str]) -> Rekey:
    return Rekey(capsys)


def stored(keyring: Keyring, *merchants: str) -> FakeAdministration:
    database = FakeAdministration()
    database.sealed = {merchant: seal(keyring, merchant) for merchant in merchants}
    return database


def test_what_changes_again_and_again_is_left_to_the_next_run(rekey: Rekey) -> None:
    database = stored(OLD, "m1")

    def rotate() -> None:
        database.sealed["m1"] = seal(OLD, "m1")

    database.meanwhile = [rotate] * MAX_ROUNDS
    code, said, err = rekey(database)
    assert (code, said["reencrypted"], said["changed_meanwhile"]) == (1, 0, ["m1"])
    assert "run it again" in err
    assert rekey(database)[0] == 0


def test_of_several_endpoints_each_is_named_and_their_merchant_once(rekey: Rekey) -> None:
    first, second = lane_named("m1", 1), lane_named("m1", 2)
    database = stored(LOST, first, second)
    code, said, err = rekey(database)
    assert code == 1
    named = [(each["merchant_id"], each["endpoint"]) for each in said["unopened"]]
    assert named == [("m1", 1), ("m1", 2)]
    assert err.endswith("it stays for m1\n")


def test_secrets_of_a_missing_key_are_named_and_stay(rekey: Rekey) -> None:
    database = stored(OLD, "m1", "m2", "m4")
    database.sealed["m3"] = lost = seal(LOST, "m3")
    database.previous = {"m3": seal(OLD, "m3"), "m4": seal(LOST, "m4")}
    code, said, err = rekey(database)
    assert (code, said["reencrypted"]) == (1, 4)
    reason = "not among WEBHOOK_SECRET_KEYS"
    assert said["unopened"] == [
        {"merchant_id": merchant, "key_id": "lost", "reason": reason} for merchant in ("m3", "m4")
    ]
    assert err == f"webhook-dispatcher: encryption key 'lost': {reason}; it stays for m3, m4\n"
    assert (database.sealed["m3"], database.previous["m3"].key_id) == (lost, "new")
    # With the key at hand the next run finishes it.
    assert rekey(database, "new", "lost")[0] == 0


def test_a_previous_secret_that_signs_no_more_is_nobodys_problem(rekey: Rekey) -> None:
    database = stored(OLD, "m1", "m2")
    database.previous = {"m1": seal(LOST, "m1"), "m2": seal(OLD, "m2")}
    database.previous_until = NOW
    code, said, _ = rekey(database)
    assert (code, said["reencrypted"], said["unopened"]) == (0, 3, [])
    assert database.previous["m1"].key_id == "lost"


async def test_check_says_which_keys_can_go() -> None:
    database = stored(OLD, "m1")
    keys = {finding.check: finding for finding in await examine(session(database, "new", "old", "older"))}[
        "keys"
    ]
    assert keys.problem is None
    assert keys.note == (
        "ok; no longer needed, remove from WEBHOOK_SECRET_KEYS: older; "
        "needed until `webhook-dispatcher endpoint rekey`: old"
    )
    database.sealed = {"m1": seal(NEW, "m1")}
    findings = await examine(session(database))
    assert problems(findings) == {}
    (keys,) = [finding for finding in findings if finding.check == "keys"]
    assert keys.note == "ok; no longer needed, remove from WEBHOOK_SECRET_KEYS: old"
    (keys,) = [finding for finding in await examine(session(database, "new")) if finding.check == "keys"]
    assert keys.note is None
