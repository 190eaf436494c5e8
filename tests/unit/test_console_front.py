"""What the console decides without a database: whose a request is, what a path names, how pages look."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.unit.fakes.clock import FakeClock
from tests.waiting import until
from webhook_dispatcher.app.console import shown_settings
from webhook_dispatcher.console import cookies, names, passwords, security
from webhook_dispatcher.console.pages.signing import next_page
from webhook_dispatcher.console.passwords import MAX_OF_ADDRESS, PasswordHasher, TooBusy
from webhook_dispatcher.console.plots import CLASSES, HEIGHT, WIDTH, nice_top, plot_of
from webhook_dispatcher.console.pretty import pretty
from webhook_dispatcher.console.reader import Reader, reader_of, zone_of
from webhook_dispatcher.console.rendering import Renderer, shown_instant, when
from webhook_dispatcher.console.static_files import StaticFiles
from webhook_dispatcher.domain.account import SessionToken
from webhook_dispatcher.domain.password import PasswordParameters
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.shards import Shard
from webhook_dispatcher.storage.console.overview import Attempts
from webhook_dispatcher.storage.console.sessions import Preferences

TOKEN = SessionToken.from_random(bytes(32))
OTHER = SessionToken.from_random(bytes(31) + b"\1")
TASHKENT = Reader("en", ZoneInfo("Asia/Tashkent"), "")
NOW = datetime(2026, 11, 23, 20, 30, tzinfo=UTC)


def test_a_form_belongs_to_its_session_alone() -> None:
    assert security.is_form_token(TOKEN, security.form_token(TOKEN))
    assert not security.is_form_token(OTHER, security.form_token(TOKEN))
    assert not security.is_form_token(TOKEN, "\udcff" + "é" * 100)
    assert TOKEN.revealed not in security.form_token(TOKEN)


@pytest.mark.parametrize(
    ("site", "origin", "is_taken"),
    [
        ("same-origin", None, True),
        ("same-origin", "https://evil.example", True),
        ("same-site", "https://console.example", False),
        ("cross-site", None, False),
        ("none", None, False),
        (None, "https://console.example", True),
        (None, "https://evil.example", False),
        (None, "null", False),
        (None, None, False),
    ],
)
def test_a_change_comes_from_a_page_of_ours(site: str | None, origin: str | None, is_taken: bool) -> None:
    assert security.is_ours(site, origin, "console.example") is is_taken


@pytest.mark.parametrize(
    ("host", "origin", "is_known"),
    [
        ("127.0.0.1:8090", None, True),
        ("localhost:1", None, True),
        ("[::1]:8090", None, True),
        ("console.example", None, False),
        ("localhost.evil.example", None, False),
        ("", None, False),
        ("console.example", "https://console.example", True),
        ("CONSOLE.example", "https://console.example", True),
        ("console.example:444", "https://console.example", False),
        ("127.0.0.1", "https://console.example", False),
    ],
)
def test_hosts_of_ours(host: str, origin: str | None, is_known: bool) -> None:
    assert security.is_known_host(host, origin) is is_known


@pytest.mark.parametrize("is_https", [True, False])
def test_a_cookie_is_read_as_it_was_written(is_https: bool) -> None:
    written = cookies.written(TOKEN, is_https)
    assert cookies.read(f"a=b; {written.partition(';')[0]}", is_https) == TOKEN
    assert cookies.read(written.partition(";")[0], not is_https) is None
    assert ("Secure" in written) is is_https
    assert cookies.written(None, is_https).endswith("Max-Age=0")


NO_COOKIES = ["", "session=", "session=short", "session=" + "x" * 5000, "\0=;;;", "session"]


@pytest.mark.parametrize("header", NO_COOKIES)
def test_what_is_no_cookie_of_ours_is_none(header: str) -> None:
    assert cookies.read(header, False) is None


@given(st.text(min_size=1, max_size=128).filter(str.isprintable))
def test_a_merchants_id_is_read_as_it_was_written(merchant_id: str) -> None:
    try:
        merchant_id.encode()
    except UnicodeEncodeError:
        return
    part = names.written(merchant_id)
    assert names.read(part) == merchant_id
    assert part not in (".", "..")
    assert set(part) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$")


@pytest.mark.parametrize("part", ["..", ".", "", "~", "~YQ", "~!!", "a/b", "a%2Fb", "~" + "A" * 900, "~bR8y"])
def test_what_is_no_merchants_id_is_none(part: str) -> None:
    """`~YQ` is `a`, which is written as it is: each id has one path. `~bR8y` is the name of a lane."""
    assert names.read(part) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/deliveries?a=b", "/deliveries?a=b"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/sign-out", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("", "/"),
    ],
)
def test_signing_in_leads_to_pages_of_ours(text: str, expected: str) -> None:
    assert next_page(text) == expected


def test_pretty_changes_nothing_but_white_space() -> None:
    text = '{"a":1.10,"b":[],"a":{"c":"x: {,}\\" \\u0041"},"d":[1,{"e":null}],"f":12345678901234567890}'
    shown = pretty(text)
    assert '  "a": 1.10,\n  "b": [],\n' in shown
    assert shown.replace("\n", "").replace("  ", "").replace('": ', '":') == text.replace('" \\u', '" \\u')


@given(st.text())
def test_pretty_fails_at_nothing(text: str) -> None:
    assert "".join(pretty(text).split()) == "".join(text.split())


def test_pretty_leaves_what_is_nested_without_end() -> None:
    text = "[" * 100_000
    assert pretty(text) == text


def test_a_reader_has_what_they_chose_or_what_their_browser_says() -> None:
    chosen = reader_of(Preferences("uz", "Asia/Tashkent", "dark"), "ru")
    assert (chosen.language, chosen.zone.key, chosen.theme) == ("uz", "Asia/Tashkent", "dark")
    left = reader_of(Preferences(None, "No/Zone", "pink"), "ru")
    assert (left.language, left.zone.key, left.theme) == ("ru", "UTC", "")


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "/etc/passwd", "Asia", "asia/tashkent"])
def test_what_is_no_time_zone_is_none(name: str) -> None:
    assert zone_of(name) is None


def test_instants_are_the_readers_with_utc_in_the_title() -> None:
    written = when(TASHKENT, NOW, NOW - timedelta(minutes=1))
    assert 'title="2026-11-23 20:29:00 UTC"' in written
    assert ">01:29:00<" in written
    assert shown_instant(TASHKENT, NOW, NOW - timedelta(days=2), False) == "11-22 01:30"
    assert shown_instant(TASHKENT, NOW, NOW - timedelta(days=400), False) == "2025-10-20"
    assert shown_instant(TASHKENT, NOW, NOW, True) == "2026-11-24 01:30:00.000"
    assert when(TASHKENT, NOW, "infinity") == "\N{EN DASH}"


def test_what_others_wrote_is_text() -> None:
    facts = {"key": "no_delivery", "facts": {"event": "<script>", "since": "&"}, "back": "/"}
    page = Renderer(StaticFiles(), FakeClock()).page("message.html", TASHKENT, facts)
    assert b"&lt;script&gt;" in page
    assert b"<script>" not in page


@pytest.mark.parametrize("template", Renderer(StaticFiles(), FakeClock())._environment.list_templates())
def test_no_template_has_styles_or_scripts_of_its_own(template: str) -> None:
    source, _, _ = Renderer(StaticFiles(), FakeClock())._environment.loader.get_source(None, template)  # type: ignore[union-attr, arg-type]
    for forbidden in (" style=", "<style", "onclick", "hx-on", "hx-vals", "js:", "javascript:", "| safe"):
        assert forbidden not in source or template == "_icons.html", forbidden


def test_static_files_are_named_by_what_they_hold() -> None:
    static = StaticFiles()
    path = static.path("console.css")
    found = static.find(path.removeprefix("/static/"))
    assert found is not None
    assert found.content_type.startswith("text/css")
    assert static.find("console.css") is None
    assert static.find("../texts.py") is None


def test_a_plot_is_drawn_within_its_bounds() -> None:
    attempts = [
        Attempts(NOW + timedelta(minutes=number), {"delivered": number, "timeout": 59 - number})
        for number in range(60)
    ]
    plot = plot_of(attempts)
    assert (plot.good, plot.bad) == (1770, 1770)
    assert plot.outcomes == [("delivered", 1770), ("timeout", 1770)]
    assert plot.sums == [("delivered", 1770), ("unanswered", 1770)]
    for bar in plot.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= WIDTH
        assert all(0 <= piece.y <= piece.y + piece.height <= HEIGHT for piece in bar.pieces)
        assert [piece.name for piece in bar.pieces] == sorted(piece.name for piece in bar.pieces)
    assert plot_of([]).bars == []


def test_outcomes_of_a_class_are_one_piece_above_what_was_delivered() -> None:
    ended = {"tls": 1, "dns": 2, "status": 4, "delivered": 8, "a newer one": 16}
    [bar] = plot_of([Attempts(NOW, ended)]).bars
    assert [(piece.name, piece.attempts) for piece in bar.pieces] == [
        ("delivered", 8), ("refused", 20), ("unreached", 3),
    ]  # fmt: skip
    for below, above in pairwise(bar.pieces):
        assert above.y + above.height == pytest.approx(below.y, abs=0.11)
    assert set(CLASSES) == set(Outcome)


TOPS = [(0, 2), (2, 2), (3, 4), (5, 10), (11, 20), (41, 100), (999, 1000)]


@pytest.mark.parametrize(("highest", "top"), TOPS)
def test_plots_end_at_even_numbers(highest: int, top: int) -> None:
    assert nice_top(highest) == top


async def test_addresses_take_turns_at_computing_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one address (an IPv6 /64) one is computed with and others wait; that keeps no other address out."""
    begun, goes_on = list[str](), threading.Event()

    def prove_slowly(password: str, _parameters: PasswordParameters) -> bytes:
        begun.append(password)
        goes_on.wait()
        return b""

    monkeypatch.setattr(passwords, "prove", prove_slowly)
    hasher, parameters = PasswordHasher(), PasswordParameters(b"", 64, 1, 1)

    def trying(password: str, address: str) -> asyncio.Task[bytes]:
        return asyncio.create_task(hasher.prove(password, parameters, ip_address(address)))

    try:
        tries = [trying("guess", f"2001:db8::{number}") for number in range(MAX_OF_ADDRESS)]
        await until(lambda: bool(begun))
        with pytest.raises(TooBusy):
            await trying("one more", "2001:db8::ffff")
        right = trying("right", "2001:db8:0:1::1")
        await until(lambda: begun == ["guess", "right"])
    finally:
        goes_on.set()
    await asyncio.gather(right, *tries)
    assert begun == ["guess", "right"] + ["guess"] * (MAX_OF_ADDRESS - 1)
    assert await trying("one more", "2001:db8::ffff") == b""


def test_the_snippet_that_merchants_copy_is_the_one_that_is_tested() -> None:
    shown = (files("webhook_dispatcher.console") / "templates" / "verify.py.txt").read_text(encoding="utf-8")
    tested = Path(__file__).parents[2] / "docs" / "verify" / "verify.py"
    assert shown == tested.read_text(encoding="utf-8")


class GrownSettings(Settings):
    """As they will be when somebody adds some that hold secrets, by themselves and inside others."""

    new_token: SecretStr | None = None
    new_databases: tuple[Shard, ...] = ()


def test_a_setting_that_holds_a_secret_is_not_shown_whoever_adds_it() -> None:
    secret = SecretStr("sesame")
    settings = GrownSettings(
        database_url=(Shard(None, secret),), new_token=secret, new_databases=(Shard("eu1", secret),)
    )
    shown = shown_settings(settings)
    hidden = {"WEBHOOK_DATABASE_URL", "WEBHOOK_NEW_TOKEN", "WEBHOOK_NEW_DATABASES"}
    assert {setting.name for setting in shown if setting.is_secret} == hidden
    assert {setting.value for setting in shown if setting.is_secret} == {""}
    assert all(setting.value != "" for setting in shown if not setting.is_secret)
