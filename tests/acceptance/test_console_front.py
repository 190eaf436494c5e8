"""Who gets in, who may change what, and what every answer of the console says to the browser."""

import asyncio
import os
import re
from datetime import timedelta

from tests.acceptance.console_people import PASSWORD, SAME_ORIGIN, Client, Page, start_console
from tests.acceptance.console_routes import path_of, routes
from tests.acceptance.installation import Installation
from tests.acceptance.raw_http import asked, connected
from tests.acceptance.slow_senders import Origin, sending_slowly
from tests.waiting import until, until_found
from webhook_dispatcher.console.calls import AnyRoute, PublicRoute, Route
from webhook_dispatcher.console.program import MAX_CONNECTIONS
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.storage.console import accounts

ROUTES = routes()
CHANGES = [route for route in ROUTES if route.method == "POST"]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
"""As the contract has them, section 8; written out, so that none is lost."""
KEPT = "public, max-age=31536000, immutable"
STRANGERS: list[dict[str, str]] = [
    {},
    {"Origin": "https://evil.example"},
    *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "none")),
]
MALFORMED = {
    "no HTTP": b"nonsense\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a long line": b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "a dot segment": b"GET /merchants/.. HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a body with GET": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\nx",
}


def check_headers(page: Page, is_kept: bool = False) -> None:
    """See that an answer has every header, whatever it is."""
    for name, value in HEADERS.items():
        assert page.headers[name] == (KEPT if is_kept and name == "Cache-Control" else value), name
    assert page.headers["Server"] == "webhook-dispatcher"


def check_answer(page: Page, route: AnyRoute, role: Role | None) -> None:
    """See that an answer is whole, and that nobody got further than they may."""
    check_headers(page, is_kept=route.template.startswith("/static/"))
    assert page.status < 500, (role, route.name, page.text)
    if role is None and isinstance(route, Route):
        assert page.location.startswith("/sign-in"), route.name
    if role is Role.VIEWER and isinstance(route, Route) and route.role is Role.OPERATOR:
        assert page.status == 403, route.name


async def ask(client: Client, route: AnyRoute) -> Page:
    """Ask for a route as a page of ours would."""
    path = path_of(route)
    return await (client.get(path) if route.method == "GET" else client.post(path))


async def test_every_answer_has_every_header_for_whoever_asks(installation: Installation) -> None:
    await installation.start()
    await installation.configure("m1")
    console = await start_console(installation)
    # What ends the session goes last.
    asked_for = sorted(ROUTES, key=lambda route: (route.name == "POST /sign-out", route.method))
    for role in (None, Role.VIEWER, Role.OPERATOR):
        async with console.person(role) if role else console.stranger() as client:
            for route in asked_for:
                check_answer(await ask(client, route), route, role)


async def test_what_is_no_request_of_ours_is_answered_with_the_same_headers(
    installation: Installation,
) -> None:
    console = await start_console(installation)
    for name, request in MALFORMED.items():
        reply = await asked(console.port, request)
        assert 400 <= reply.status < 500, name
        for header, value in HEADERS.items():
            assert reply.headers[header.lower()] == value, name


async def test_unknown_paths_methods_and_hosts_are_refused(installation: Installation) -> None:
    console = await start_console(installation)
    async with console.person() as person:
        for method, path, status in (
            ("GET", "/nowhere", 404),
            ("GET", "/merchants/%2e%2e", 400),
            ("GET", "/deliveries/not-an-event", 404),
            ("GET", "/merchants/~YQ", 404),
            ("GET", "/static/console.css", 404),
            ("DELETE", "/", 405),
        ):
            page = await person.ask(method, path)
            assert page.status == status, path
            check_headers(page)
        page = await person.get("/", Host="evil.example")
        assert page.status == 421
        check_headers(page)


async def test_a_change_that_no_page_of_this_session_asked_for_is_refused(installation: Installation) -> None:
    console = await start_console(installation)
    async with console.person() as person, console.person() as other:
        for route in CHANGES:
            path, form = path_of(route), [("token", person.token), ("url", "https://example.com/")]
            for headers in STRANGERS:
                page = await person.ask("POST", path, form, headers)
                assert page.status == 403, (route.name, headers)
                check_headers(page)
            if isinstance(route, PublicRoute):
                continue
            for token in ("", other.token, person.token[:-1]):
                page = await person.ask("POST", path, [("token", token)], SAME_ORIGIN)
                assert page.status == 403, (route.name, token)
        assert (await person.get("/")).status == 200, "nobody was signed out"
    assert await installation.admin.fetchval("SELECT count(*) FROM webhook.control") == 0


async def test_signing_in_and_out(installation: Installation) -> None:
    console = await start_console(installation)
    await console.account("ada", Role.OPERATOR)
    async with console.stranger() as client:
        page = await client.get("/deliveries?state=failed")
        assert page.location == "/sign-in?next=%2Fdeliveries%3Fstate%3Dfailed"
        page = await client.post("/sign-in", {"name": "ada", "password": "wrong", "next": "/deliveries"})
        assert (page.status, "Set-Cookie" in page.headers) == (403, False)
        assert "The name or the password is wrong." in page.text
        page = await client.post(
            "/sign-in", {"name": "ada", "password": PASSWORD, "next": "/health", "zone": "Asia/Tashkent"}
        )
        assert (page.status, page.location) == (303, "/health")
        cookie = page.headers["Set-Cookie"]
        assert re.fullmatch("session=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Strict", cookie)
        page = await client.get("/account")
        assert 'value="Asia/Tashkent"' in page.text
        stolen = cookie.partition(";")[0]
        assert (await client.post("/sign-out")).headers["Set-Cookie"].endswith("Max-Age=0")
    async with console.stranger() as thief:
        assert (await thief.get("/", Cookie=stolen)).location == "/sign-in?next=%2F&why=over"
    assert PASSWORD not in console.daemon.log_file.read_text()
    assert "wrong" not in console.daemon.log_file.read_text()


async def test_ten_wrong_passwords_lock_an_account_for_a_while(installation: Installation) -> None:
    console = await start_console(installation)
    await console.account("ada", Role.VIEWER)
    async with console.stranger() as client:
        pages = [await client.sign_in("ada", f"wrong password {number}") for number in range(11)]
        assert [page.status for page in pages] == [403] * 10 + [429]
        locked = await client.sign_in("ada")
        assert (locked.status, "Set-Cookie" in locked.headers) == (429, False)
        assert "Too many wrong tries. Try again in 1" in locked.text
        # Forty at once would find no turn (503) if their passwords were computed with.
        tries = await asyncio.gather(*(client.sign_in("ada") for _ in range(40)))
        assert {each.status for each in tries} == {429}


async def test_fifteen_idle_minutes_end_an_operators_session(installation: Installation) -> None:
    console = await start_console(installation)
    async with console.person() as operator, console.person(Role.VIEWER) as viewer:
        await installation.owner.execute(
            "UPDATE webhook.console_session SET acted_at = acted_at - $1::interval", timedelta(minutes=16)
        )
        refreshed = await operator.get("/", **{"HX-Request": "true"})
        assert (refreshed.status, refreshed.headers["HX-Redirect"]) == (204, "/sign-in?next=%2F&why=idle")
        page = await operator.post("/merchants/m1/pause")
        assert page.location == "/sign-in?next=%2Fmerchants%2Fm1&why=over"
        assert (await viewer.get("/")).status == 200


async def test_a_page_that_refreshes_by_itself_keeps_nobody_active(installation: Installation) -> None:
    console = await start_console(installation)
    async with console.person() as operator:
        acted = "UPDATE webhook.console_session SET acted_at = acted_at - interval '9 min' RETURNING acted_at"
        before = await installation.owner.fetchval(acted)
        await operator.get("/", **{"HX-Request": "true"})
        read = "SELECT acted_at FROM webhook.console_session"
        assert await installation.owner.fetchval(read) == before
        await operator.get("/")
        assert await installation.owner.fetchval(read) > before


async def test_over_https_the_cookie_belongs_to_this_host_alone(installation: Installation) -> None:
    console = await start_console(installation, CONSOLE_ORIGIN="https://console.example.com")
    await console.account("ada", Role.OPERATOR)
    async with console.stranger() as client:
        client.session.headers["Host"] = "console.example.com"
        page = await client.post("/sign-in", {"name": "ada", "password": PASSWORD})
        assert page.headers["Set-Cookie"].startswith("__Host-session=")
        assert page.headers["Set-Cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        assert page.headers["Strict-Transport-Security"].startswith("max-age=")
        client.session.headers["Host"] = "127.0.0.1"
        assert (await client.get("/")).status == 421


async def test_a_proxy_signs_people_in_and_nobody_else_does(installation: Installation) -> None:
    trusting = {"CONSOLE_AUTH": "proxy", "CONSOLE_PROXY_HEADER": "X-Person"}
    console = await start_console(installation, **trusting, CONSOLE_TRUSTED_PROXIES="127.0.0.1/32")
    assert await accounts.add(installation.admin, "ada", Role.VIEWER, None, "a test", is_by_proxy=True)
    await console.account("grace", Role.OPERATOR)
    async with console.stranger() as client:
        for headers, status in (({}, 403), ({"X-Person": "grace"}, 403), ({"X-Person": "ada"}, 200)):
            assert (await client.get("/", **headers)).status == status, headers
        assert (await client.get("/")).status == 403, "the proxy names nobody any more"
        assert (await client.get("/sign-in")).location == "/"
    elsewhere = await start_console(installation, **trusting, CONSOLE_TRUSTED_PROXIES="10.0.0.0/8")
    async with elsewhere.stranger() as client:
        assert (await client.get("/", **{"X-Person": "ada"})).status == 403


async def test_a_database_that_is_away_is_said_and_readiness_knows(installation: Installation) -> None:
    console = await start_console(installation)
    async with console.person() as person:
        await installation.owner.execute("ALTER ROLE webhook_console NOLOGIN")
        try:
            await installation.owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'webhook_console'"
            )
            page = await person.get("/")
            assert (page.status, "The database does not answer" in page.text) == (503, True)
            check_headers(page)

            async def is_unready() -> bool:
                return (await person.get("/readyz")).status == 503

            await until_found(is_unready)
            assert (await person.get("/healthz")).status == 200
        finally:
            await installation.owner.execute("ALTER ROLE webhook_console LOGIN")


async def test_it_lets_others_on_its_machine_go_first(installation: Installation) -> None:
    console = await start_console(installation)
    threads = map(int, os.listdir(f"/proc/{console.daemon.process.pid}/task"))
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {min(ours + 10, 19)}


async def test_who_breaks_off_while_sending_a_form_is_no_error_of_ours(installation: Installation) -> None:
    console = await start_console(installation)
    head = f"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1:{console.port}\r\nSec-Fetch-Site: same-origin\r\n"
    form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nname="
    async with connected(console.port) as client:
        await client.send((head + form).encode())
        await console.daemon.logged("console.started")
    line = await console.daemon.logged("request.broken_off")
    assert (line["route"], line["level"]) == ("POST /sign-in", "info")
    assert not console.daemon.log("request.failed")


async def test_slow_sign_ins_shut_nobody_out(installation: Installation) -> None:
    console = await start_console(installation)
    host = f"Host: 127.0.0.1:{console.port}"
    form = "Content-Type: application/x-www-form-urlencoded"
    slow = ("POST /sign-in HTTP/1.1", host, "Sec-Fetch-Site: same-origin", form, "Content-Length: 200")
    origins = [Origin(f"127.0.2.{number + 1}", False) for number in range(50)]
    page = f"GET /sign-in HTTP/1.1\r\n{host}\r\n\r\n".encode()
    async with sending_slowly(console.port, origins, MAX_CONNECTIONS + 50, slow, pause=0.5) as senders:
        await until(lambda: senders.begun > 2 * MAX_CONNECTIONS)
        for number in range(10):
            assert (await asked(console.port, page, f"127.0.3.{number + 1}")).status == 200
        await console.account("ada", Role.VIEWER)
        async with console.stranger() as client:
            assert (await client.sign_in("ada")).status == 303
