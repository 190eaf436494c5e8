"""`endpoint import`: what of a file is taken, and what is said of lines that cannot be."""

import json
from pathlib import Path

import pytest

from tests.unit.fakes.administration import KEYS, NOW, FakeAdministration, session
from webhook_dispatcher.cli import main
from webhook_dispatcher.domain.signing import Keyring
from webhook_dispatcher.storage.api.event_types import OwnType

HELD = "whsec_held-by-the-merchant-already"
OTHER = "another-sender-made-this-0123456789"
CSV = f"merchant_id,url,secret\nm1,https://m1.example.com/,{HELD}\nm2,https://m2.example.com/,\n"
JSON_LINES = f"""{{"url": "https://m1.example.com/", "merchant_id": "m1", "secret": "{HELD}"}}

{{"merchant_id": "m2", "url": "https://m2.example.com/"}}
"""


def secret_of(database: FakeAdministration, merchant: str) -> str:
    return Keyring.parse(KEYS).open(merchant, database.sealed[merchant]).revealed.decode()


@pytest.mark.parametrize(
    "text",
    [CSV, "\ufeff" + CSV.replace(",", ";").replace("\n", "\r\n"), JSON_LINES],
    ids=("csv", "of a spreadsheet", "JSON lines"),
)
def test_a_file_is_taken_with_the_secrets_that_merchants_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    database, file = FakeAdministration(), tmp_path / "file"
    file.write_text(text, newline="")
    assert main(["endpoint", "import", str(file), "--dry-run"], session(database)) == 0
    assert (database.endpoints, capsys.readouterr().out) == (
        {},
        "2 would be configured, 0 would be replaced\n",
    )
    assert main(["endpoint", "import", str(file), "--json"], session(database)) == 0
    told = json.loads(capsys.readouterr().out)
    assert [view.url for view in database.endpoints.values()] == [
        "https://m1.example.com/",
        "https://m2.example.com/",
    ]
    assert (secret_of(database, "m1"), told["configured"]) == (HELD, ["m1", "m2"])
    assert told["secrets"] == {"m2": secret_of(database, "m2")}


def test_types_are_taken_from_a_file_and_kept_where_it_names_none(tmp_path: Path) -> None:
    database, file = FakeAdministration(), tmp_path / "file"
    file.write_text('merchant_id,url,types\nm1,https://m1.example.com/,"charge.failed, charge.created"\n')
    assert main(["endpoint", "import", str(file)], session(database)) == 0
    assert database.endpoints["m1"].types == ["charge.failed", "charge.created"]
    for types, wanted in (("", ["charge.failed", "charge.created"]), (', "types": ["all"]', None)):
        file.write_text(f'{{"merchant_id": "m1", "url": "https://m2.example.com/"{types}}}\n')
        assert main(["endpoint", "import", str(file), "--replace"], session(database)) == 0
        assert database.endpoints["m1"].types == wanted
    database.own_types = [OwnType(f"own.{number}", "id", NOW, None) for number in range(65)]
    many = ",".join(own.name for own in database.own_types)
    for types in ('"charge.invented"', "7", "[7]", "[]", f'"{many}"'):
        file.write_text(f'{{"merchant_id": "m2", "url": "https://m2.example.com/", "types": {types}}}\n')
        assert main(["endpoint", "import", str(file)], session(database)) == 2


def test_every_bad_line_is_named_and_nothing_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, file = FakeAdministration(), tmp_path / "file"
    file.write_text(CSV)
    assert main(["endpoint", "import", str(file)], session(database)) == 0
    before = dict(database.sealed)
    lines = [
        "merchant_id,url,secret",
        f"m3,https://m3.example.com/,{HELD}",
        f"m1,https://m1.example.com/,{HELD}",
        f"m4,http://10.0.0.1/,{HELD}",
        f"m3,https://m3.example.com/,{HELD}",
        "m5,https://m5.example.com/,short-secret",
        f"m6,https://m6.example.com/,{HELD} ",
        f" m7,https://m7.example.com/,{HELD}",
        "m8",
        "m9,https://m9.example.com/,,more",
    ]
    file.write_text("\n".join(lines))
    capsys.readouterr()
    assert main(["endpoint", "import", str(file)], session(database)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    said = [line.removeprefix("webhook-dispatcher: ") for line in err.splitlines()]
    assert said[-1] == "nothing was done"
    assert [line.partition(": ")[0] for line in said[:-1]] == [f"line {number}" for number in range(3, 11)]
    assert "m1 is configured (--replace)" in said[0]
    assert "url: " in said[1]
    assert "m3 is in line 2 too" in said[2]
    assert "at least 24 characters" in said[3]
    assert not [secret for secret in (HELD, "short-secret") if secret in err]
    assert database.sealed == before
    assert list(database.endpoints) == ["m1", "m2"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"merchant,url\nm1,https://m1.example.com/\n", "line 1: is to be the header merchant_id,url,secret"),
        (b"", "line 1: is to be the header"),
        (b"merchant_id,url\n", "line 1: there is no merchant in the file"),
        (b'merchant_id,url\nm1,"https://m1.example.com/', "line 2: unexpected end of data"),
        (b"merchant_id,url\nm1,https://\xff/\n", "line 2: is not UTF-8"),
        (
            b'{"merchant_id": "m1", "url": "https://m1.example.com/"}\n{"merchant_id": \n',
            "line 2: is no JSON",
        ),
        (b'{"merchant_id": "m1", "url": "https://m1.example.com/", "secrt": "x"}', "line 1: has more than"),
        (b'{"merchant_id": 1, "url": "https://m1.example.com/"}', "line 1: lacks merchant_id or url"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    database, file = FakeAdministration(), tmp_path / "file"
    file.write_bytes(content)
    assert main(["endpoint", "import", str(file)], session(database)) == 2
    assert f"webhook-dispatcher: {said}" in capsys.readouterr().err
    assert database.endpoints == {}


def test_replacing_changes_the_url_and_the_secret_where_one_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, file = FakeAdministration(), tmp_path / "file"
    file.write_text(CSV)
    assert main(["endpoint", "import", str(file)], session(database)) == 0
    kept = secret_of(database, "m2")
    file.write_text(
        f"merchant_id,url,secret\nm1,https://new.example.com/,{OTHER}\nm2,https://new.example.com/,\n"
        f"m3,https://m3.example.com/,{HELD}\n"
    )
    capsys.readouterr()
    assert main(["endpoint", "import", str(file), "--replace"], session(database)) == 0
    assert capsys.readouterr().out == "1 configured, 2 replaced\n"
    assert [database.endpoints[name].url for name in ("m1", "m2")] == ["https://new.example.com/"] * 2
    assert (secret_of(database, "m1"), secret_of(database, "m2")) == (OTHER, kept)
