"""`endpoint rekey`: every stored secret under the newest key, so that older keys can be removed.

In small batches, each stored only where nobody has changed what was read: a rotation at the same time is
never undone. It can be cut short anywhere, and run again: what is under the newest key already stays.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import typer

from webhook_dispatcher.cli.options import AsJson, RequestedBy, ShardName
from webhook_dispatcher.cli.output import print_facts, print_json, shown
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.errors import UnopenedSecret, UserError
from webhook_dispatcher.domain.lane import merchant_of, told
from webhook_dispatcher.domain.signing import Keyring, SealedSecret
from webhook_dispatcher.storage.administration import Administration, StoredSecrets

BATCH = 50
"""Endpoints in one transaction; as many lanes are locked while it lasts, which their holders pass over."""
MAX_ROUNDS = 10
"""Rounds after which what is changed again and again meanwhile is left to the next run."""
MAX_NAMED = 10


@dataclass(slots=True)
class Rekeyed:
    """What became of the stored secrets; an endpoint may have two of them.

    unopened, changed_meanwhile: by its lane.
    """

    key_id: str
    already_current: int = 0
    reencrypted: int = 0
    unopened: dict[str, UnopenedSecret] = field(default_factory=dict)
    changed_meanwhile: set[str] = field(default_factory=set)

    @property
    def missing_keys(self) -> list[str]:
        """What stands in the way, by key."""
        return sorted({str(error) for error in self.unopened.values()})


def rekey(
    context: typer.Context,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Encrypt all stored secrets under the newest key, the first of WEBHOOK_SECRET_KEYS.

    Nothing else changes; afterwards `check` says which keys can be removed. It can be run again at any time.
    """
    session = session_of(context, shard)
    keyring = session.settings().keyring()
    rekeyed = session.change(lambda database: reencrypt(database, keyring), requested_by)
    if as_json:
        print_json(
            {
                "key_id": rekeyed.key_id,
                "reencrypted": rekeyed.reencrypted,
                "already_current": rekeyed.already_current,
                "unopened": [
                    {**told(lane), "key_id": error.key_id, "reason": error.reason}
                    for lane, error in sorted(rekeyed.unopened.items())
                ],
                "changed_meanwhile": _merchants(rekeyed.changed_meanwhile),
            }
        )
    else:
        print_facts(
            [
                (f"encrypted anew under {rekeyed.key_id}", rekeyed.reencrypted),
                ("already under it", rekeyed.already_current),
                ("could not be opened", len(rekeyed.unopened)),
            ]
        )
    if problems := list(_problems(rekeyed)):
        raise UserError("\n".join(problems))


async def reencrypt(database: Administration, keyring: Keyring) -> Rekeyed:
    """Go round all secrets that another key seals, until none is left that we can open.

    ConfigurationError: one of our keys is not the one that its id stands for; nothing is changed.
    """
    await database.verify_keys(keyring)
    _, already_current = await database.count_secrets(keyring.sealing_id)
    rekeyed = Rekeyed(keyring.sealing_id, already_current)
    for _ in range(MAX_ROUNDS):
        await _go_round(database, keyring, rekeyed)
        if not rekeyed.changed_meanwhile:
            break
    return rekeyed


async def _go_round(database: Administration, keyring: Keyring, rekeyed: Rekeyed) -> None:
    rekeyed.unopened, rekeyed.changed_meanwhile = {}, set()
    after = ""
    while batch := await database.read_secrets_of_other_keys(keyring.sealing_id, after, BATCH):
        after = batch[-1].lane
        both = [(stored, _sealed_anew(stored, keyring, rekeyed)) for stored in batch]
        changes = [(stored, anew) for stored, anew in both if anew != stored]
        if not changes:
            continue
        written = await database.replace_sealed_secrets(changes, keyring)
        for stored, anew in changes:
            if stored.lane in written:
                rekeyed.reencrypted += (anew.current != stored.current) + (anew.previous != stored.previous)
            else:
                rekeyed.changed_meanwhile.add(stored.lane)


def _sealed_anew(stored: StoredSecrets, keyring: Keyring, rekeyed: Rekeyed) -> StoredSecrets:
    """Seal what can be opened under the newest key; the rest stays, and is noted if anybody needs it."""
    lane = stored.lane
    anew = stored
    try:
        anew = replace(anew, current=_moved(lane, stored.current, keyring))
    except UnopenedSecret as error:
        rekeyed.unopened[lane] = error
    if stored.previous is not None:
        try:
            anew = replace(anew, previous=_moved(lane, stored.previous, keyring))
        except UnopenedSecret as error:
            if not stored.previous_is_over:
                rekeyed.unopened.setdefault(lane, error)
    return anew


def _moved(lane: str, sealed: SealedSecret, keyring: Keyring) -> SealedSecret:
    if sealed.key_id == keyring.sealing_id:
        return sealed
    return keyring.seal(lane, keyring.open(lane, sealed))


def _merchants(lanes: Iterable[str]) -> list[str]:
    return sorted(set(map(merchant_of, lanes)))


def _problems(rekeyed: Rekeyed) -> Iterator[str]:
    for reason in rekeyed.missing_keys:
        merchants = _merchants(lane for lane, error in rekeyed.unopened.items() if str(error) == reason)
        named = ", ".join(map(shown, merchants[:MAX_NAMED]))
        more = f" and {len(merchants) - MAX_NAMED} more" if len(merchants) > MAX_NAMED else ""
        yield f"{reason}; it stays for {named}{more}"
    if rekeyed.changed_meanwhile:
        yield f"{len(rekeyed.changed_meanwhile)} endpoints changed again and again meanwhile: run it again"
