"""Every page and every change of the console, in one table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from webhook_dispatcher.console.calls import (
    AnyRoute,
    Content,
    HttpError,
    PublicRequest,
    PublicRoute,
    Response,
    Route,
)
from webhook_dispatcher.console.pages.account import AccountPages
from webhook_dispatcher.console.pages.acts import ActPages
from webhook_dispatcher.console.pages.commands import CommandPages
from webhook_dispatcher.console.pages.deliveries import DeliveryLog
from webhook_dispatcher.console.pages.delivery import DeliveryPages
from webhook_dispatcher.console.pages.health import HealthPage, Setting
from webhook_dispatcher.console.pages.merchant import MerchantPages
from webhook_dispatcher.console.pages.merchants import MerchantList
from webhook_dispatcher.console.pages.overview import OverviewPage
from webhook_dispatcher.console.pages.search import SearchPage
from webhook_dispatcher.console.pages.signing import Signing
from webhook_dispatcher.console.passwords import PasswordHasher
from webhook_dispatcher.console.static_files import StaticFiles
from webhook_dispatcher.diagnosis.explanation import Rules
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.commands import Commands
from webhook_dispatcher.storage.console.deliveries import Deliveries
from webhook_dispatcher.storage.console.delivery import Stories
from webhook_dispatcher.storage.console.health import Healths
from webhook_dispatcher.storage.console.merchants import Merchants
from webhook_dispatcher.storage.console.overview import Overviews
from webhook_dispatcher.storage.console.previews import Previews
from webhook_dispatcher.storage.console.search import Search
from webhook_dispatcher.storage.console.sessions import Sessions
from webhook_dispatcher.transport.guard import Guard

OPERATOR = Role.OPERATOR


@dataclass(frozen=True, slots=True)
class Parts:
    """What pages are made with. readiness: what stands in the way of answering.

    names: by which events are sent.
    """

    database: Database
    clock: Clock
    guard: Guard
    rules: Rules
    static: StaticFiles
    settings: Sequence[Setting]
    shard: str | None
    installation: str | None
    is_by_proxy: bool
    readiness: Callable[[], Sequence[str]]
    names: Callable[[], Names]


def table(parts: Parts) -> Sequence[AnyRoute]:
    """Return all routes."""
    database = parts.database
    sessions, actions, commands = Sessions(database), Actions(database), Commands(database)
    deliveries, merchants, hasher = Deliveries(database), Merchants(database), PasswordHasher()
    signing = Signing(sessions, hasher, parts.is_by_proxy)
    acts = ActPages(Previews(database), actions, parts.clock, len(parts.rules.schedule.delays))
    delivery = DeliveryPages(Stories(database), commands, actions, parts.rules, parts.names)
    merchant_list = MerchantList(merchants)
    merchant = MerchantPages(merchants, commands, actions, parts.guard, parts.shard, parts.names)
    command = CommandPages(commands, actions, parts.clock)
    health = HealthPage(Healths(database), parts.clock, parts.guard, parts.installation, parts.settings)
    account = AccountPages(sessions, hasher)
    return (
        PublicRoute("GET", "/sign-in", signing.show),
        PublicRoute("POST", "/sign-in", signing.sign_in),
        Route("POST", "/sign-out", signing.sign_out),
        Route("GET", "/", OverviewPage(Overviews(database)).show),
        Route("GET", "/deliveries", DeliveryLog(deliveries, merchants).show),
        Route("GET", "/deliveries/act", acts.preview, OPERATOR),
        Route("POST", "/deliveries/act", acts.act, OPERATOR),
        Route("GET", "/deliveries/{event}", delivery.show),
        Route("POST", "/deliveries/{event}/retry", delivery.retry, OPERATOR),
        Route("POST", "/deliveries/{event}/cancel", delivery.cancel, OPERATOR),
        Route("GET", "/merchants", merchant_list.show),
        Route("GET", "/open", merchant_list.open, OPERATOR),
        Route("GET", "/merchants/{merchant}", merchant.show),
        Route("GET", "/merchants/{merchant}/url", merchant.judge_url, OPERATOR),
        Route("POST", "/merchants/{merchant}/endpoint", merchant.configure, OPERATOR),
        Route("POST", "/merchants/{merchant}/endpoints", merchant.add, OPERATOR),
        Route("POST", "/merchants/{merchant}/types", merchant.set_types, OPERATOR),
        Route("POST", "/merchants/{merchant}/order", merchant.set_order, OPERATOR),
        Route("POST", "/merchants/{merchant}/secret", merchant.rotate, OPERATOR),
        Route("POST", "/merchants/{merchant}/remove", merchant.remove, OPERATOR),
        Route("POST", "/merchants/{merchant}/test", merchant.test, OPERATOR),
        Route("POST", "/merchants/{merchant}/pause", merchant.pause, OPERATOR),
        Route("POST", "/merchants/{merchant}/resume", merchant.resume, OPERATOR),
        Route("POST", "/merchants/{merchant}/keys", merchant.create_key, OPERATOR),
        Route("POST", "/merchants/{merchant}/keys/revoke", merchant.revoke_key, OPERATOR),
        Route("GET", "/commands", command.show),
        Route("GET", "/commands/{command}", command.show_one),
        Route("POST", "/commands/{command}/withdraw", command.withdraw, OPERATOR),
        Route("POST", "/commands/{command}/stop", command.stop, OPERATOR),
        Route("GET", "/health", health.show),
        Route("GET", "/account", account.show),
        Route("POST", "/account/preferences", account.prefer),
        Route("POST", "/account/password", account.change_password),
        Route("POST", "/account/sessions", account.end_others),
        Route("POST", "/account/session", account.end_one),
        Route("GET", "/search", SearchPage(Search(database)).show),
        *_of_nobody(parts.static, parts.readiness),
    )


def _of_nobody(static: StaticFiles, readiness: Callable[[], Sequence[str]]) -> Sequence[PublicRoute]:
    """Return the routes that need no session and no database."""

    async def file(request: PublicRequest) -> Response:
        if (found := static.find(request.parameters["file"])) is None:
            raise HttpError(404, "not_found")
        return Content(found.body, found.content_type, is_kept=True)

    async def alive(request: PublicRequest) -> Response:
        return Content(b"ok\n")

    async def ready(request: PublicRequest) -> Response:
        reasons = readiness()
        return Content(
            "".join(f"{reason}\n" for reason in reasons or ["ready"]).encode(), status=503 if reasons else 200
        )

    return (
        PublicRoute("GET", "/static/{file}", file),
        PublicRoute("GET", "/healthz", alive),
        PublicRoute("GET", "/readyz", ready),
    )
