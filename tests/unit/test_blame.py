"""Which failures are ours: what no merchant can bring about."""

import errno
import ssl
from ipaddress import ip_address

import pytest

from webhook_dispatcher.transport.failures import ConnectFailed, NameFailed
from webhook_dispatcher.transport.local_faults import ResolverFault, is_local

V4, V6 = ip_address("198.41.0.4"), ip_address("2001:503:ba3e::2:30")


def connecting(code: int) -> Exception:
    """Return what is raised for an errno of connect or socket."""
    error = ConnectFailed()
    error.__cause__ = OSError(code, "x")
    return error


def is_ours(error: Exception, tried: set[object], routed: set[int]) -> bool:
    return is_local(error, tried, lambda: frozenset(routed))  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_what_has_run_out_on_this_machine_is_ours(code: int) -> None:
    assert is_ours(connecting(code), set(), {4, 6})
    assert is_ours(OSError(code, "x"), {V4}, {4})


@pytest.mark.parametrize("code", [errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH])
@pytest.mark.parametrize("tried", [V4, V6])
def test_no_route_is_ours_only_if_there_is_none_to_anywhere(code: int, tried: object) -> None:
    assert is_ours(connecting(code), {tried}, set())
    for routed in ({4}, {6}, {4, 6}):
        assert not is_ours(connecting(code), {tried}, routed)


@pytest.mark.parametrize(
    ("tried", "routed", "ours"),
    [
        ({V4}, {4, 6}, True),
        ({V4}, {4}, True),
        ({V6}, {4, 6}, True),
        ({V6}, {4}, False),  # IPv6 is switched off: so says every connect to such an address
        ({V4, V6}, {4}, True),
        ({V6}, set(), True),
    ],
)
def test_no_local_address_is_ours_if_any_is_routed(tried: set[object], routed: set[int], ours: bool) -> None:
    assert is_ours(connecting(errno.EADDRNOTAVAIL), tried, routed) is ours


OF_THE_OTHER_SIDE = ["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EPIPE", "EACCES", "EPERM", "EINVAL"]


@pytest.mark.parametrize("name", OF_THE_OTHER_SIDE)
def test_what_the_other_side_can_bring_about_is_not_ours(name: str) -> None:
    assert not is_ours(connecting(getattr(errno, name)), {V4}, set())


@pytest.mark.parametrize("error", [ssl.SSLError(errno.ENOMEM, "x"), RuntimeError(), ValueError(), EOFError()])
def test_errors_without_a_system_call_are_not_ours(error: Exception) -> None:
    assert not is_ours(error, {V4}, set())


def test_only_a_fault_of_the_resolver_itself_is_ours() -> None:
    for cause, ours in ((ResolverFault(None, "x"), True), (OSError(None, "x"), False)):
        error = NameFailed()
        error.__cause__ = cause
        assert is_ours(error, set(), set()) is ours
