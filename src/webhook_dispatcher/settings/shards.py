"""The databases that one installation serves, each called a shard: how the list of them is read.

One URL may stand bare; several each have a name: `eu1=postgresql://… eu2=postgresql://…`. White space
separates them, since a comma may lie within a URL. Nothing here quotes more than a name: URLs hold passwords.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import SecretStr

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.settings import forms

NAME = "[a-z0-9_-]{1,32}"
_NAMED = re.compile(r"(?P<name>[^=:/?@]*)=(?P<url>.*)", re.DOTALL)
_EACH_HAS_A_NAME = (
    "where there are several, each database has a name, as in eu1=postgresql://… eu2=postgresql://…; "
    "white space within a URL is percent-encoded"
)


@dataclass(frozen=True, slots=True)
class Shard:
    """One database. name: None where it is the only one and its URL stands bare."""

    name: str | None
    url: SecretStr

    @property
    def text(self) -> SecretStr:
        """Return it as the list has it, for the environment of a child."""
        url = self.url.get_secret_value()
        return SecretStr(url if self.name is None else f"{self.name}={url}")


def read(text: str) -> tuple[Shard, ...]:
    """Read a list of databases; ValueError says what would be right."""
    items = text.split()
    shards = tuple(_read_one(item, number if len(items) > 1 else 0) for number, item in enumerate(items, 1))
    if len(shards) > 1 and any(shard.name is None for shard in shards):
        raise ValueError(_EACH_HAS_A_NAME)
    names = [shard.name for shard in shards]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ValueError(f"the name {name} is given to two databases")
    return shards


def _read_one(item: str, number: int) -> Shard:
    """Read one item; it is called by its number, since what looks like a name may be part of a password."""
    where = f"database {number} of the list: " if number else ""
    named = _NAMED.fullmatch(item)
    if named is None:
        return Shard(None, _url(item, _EACH_HAS_A_NAME if number else "", where))
    if not named["name"]:
        raise ValueError(
            f"{where}there is no name before the =: write eu1=postgresql://…, or leave the = out"
        )
    if not re.fullmatch(NAME, named["name"]):
        raise ValueError(f"{where}a name has 1 to 32 characters of a-z, 0-9, _ and -")
    return Shard(named["name"], _url(named["url"], "", where))


def _url(text: str, otherwise: str, where: str) -> SecretStr:
    try:
        return forms.database_url(text)
    except ValueError as error:
        raise ValueError(otherwise or f"{where}{error}") from None


def names_of(shards: Sequence[Shard]) -> str:
    """Name them for people."""
    return ", ".join(shard.name or "(no name)" for shard in shards)


def choose(shards: Sequence[Shard], name: str | None) -> Shard:
    """Return the one that is meant; ConfigurationError names those there are.

    name: None means the only one.
    """
    if name is None:
        if len(shards) == 1:
            return shards[0]
        raise ConfigurationError(f"there are several databases: choose one of {names_of(shards)} by --shard")
    for shard in shards:
        if shard.name == name:
            return shard
    if shards[0].name is None:
        raise ConfigurationError(f"--shard {name}: the database has no name; leave --shard out")
    raise ConfigurationError(f"--shard {name}: no such database; there are {names_of(shards)}")


FORM = forms.text(read, "URL, or several, each as `name=URL`, separated by white space")
