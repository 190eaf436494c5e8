"""What a program said in English, read back as data: the guard, dispatchers, and commands that were rejected.

They write for logs and into the database, which people of all languages read. A sentence that is known is
recognised by its English text; what a newer version or another program says is shown as it stands.
"""

import re
from collections.abc import Iterator
from functools import cache
from string import Formatter

from webhook_dispatcher import words
from webhook_dispatcher.diagnosis.said import Said, said
from webhook_dispatcher.domain.language import DEFAULT

MAX_READ = 500
"""Characters: whatever is longer was not written by us."""
KEYS = """
    url_blank url_too_long url_not_ascii url_fragment url_password url_malformed url_unparsable url_scheme
    url_port http_not_allowed host_not_v6 host_dot host_number host_invalid host_single host_special
    address_none use_this_network use_private use_shared use_loopback use_link_local use_protocols
    use_documentation use_benchmarking use_multicast use_reserved use_not_global own_fault_fleet own_fault
    clock_off database_not_reached database_silent database_silent_because database_commits_nothing
    database_refuses outcomes_unwritten key_missing key_wrong refused_url rejected_not_configured
    no_delivery still_in_order rejected_suspended was_delivered id_is_owed object_is_lost state_unknown
    nothing_owed no_longer_owed rejected_paused rejected_all_paused rejected_secret args_no_object
    command_unknown progress_malformed args_instant args_offset args_flag args_choice args_one args_count
    attempt_timeout phase_reaching_proxy phase_asking_proxy phase_turn phase_resolving phase_connecting
    phase_handshaking phase_waiting phase_reading name_unreadable name_nonexistent name_no_address
    name_server_failed name_server_refused name_servers_silent name_servers_unreached names_crowded
    unknown_names_crowded name_many_addresses name_forbidden certificate_unreadable certificate_expired
    chain_expired certificate_early certificate_other_names certificate_no_name answer_malformed
    request_unwritable no_connection closed_in_handshake closed_in_phase proxy_failed proxy_answered
    proxy_https_only sender_closed signature_wrong created_at_beyond object_malformed outcome_refused
    address_denied address_not_public args_text args_scope args_whom args_before args_needs
    another_database_silent broken_in_handshake broken_in_phase rejected_no_such_endpoint
    args_endpoint_whose args_merchant_control
""".split()  # noqa: SIM905 (a hundred are read more easily without quotes)
"""Those that begin with a fact stand behind those that are more exact."""
OTHER = "as_written"
REASON = "reason"
"""A fact of this name is such a sentence itself."""
NAMES = frozenset({"command", "name"})
"""Facts of these names are of small letters and underscores alone."""


def read(text: str) -> Said:
    """Return what was said; in English it is said by the same letters."""
    if len(text) <= MAX_READ:
        for key, pattern in _patterns():
            if (found := pattern.fullmatch(text)) is not None:
                return said(key, **{name: _fact(name, part) for name, part in found.groupdict().items()})
    return said(OTHER, text=text)


def _fact(name: str, text: str) -> Said | str:
    return read(text) if name == REASON else text


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((key, re.compile("".join(_pattern(key)))) for key in KEYS)


def _pattern(key: str) -> Iterator[str]:
    for said_before, name, _, _ in Formatter().parse(words.template(f"said.{key}", DEFAULT)):
        yield re.escape(said_before)
        if name is not None:
            yield f"(?P<{name}>{'[a-z_]+' if name in NAMES else '.+'})"
