"""Where settings stand: in the environment that the caller hands over, and secrets in files as well.

A secret is given once: as WEBHOOK_X, in the file that WEBHOOK_X_FILE names, or in the file WEBHOOK_X of the
folder WEBHOOK_SECRETS_DIR. What is wrong with a file is said without what it holds. An empty variable counts
as unset; an empty file is a problem.
Source: contract 5; docs/adr/0026-settings-by-pydantic-settings.md.
"""

import difflib
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource, PydanticBaseSettingsSource

from webhook_dispatcher.settings.fields import PREFIX, Settings, variable
from webhook_dispatcher.settings.shown import holds_secret

IGNORED_PREFIX = "WEBHOOK_DISPATCHER_"
SECRETS_DIR = variable("secrets_dir")
FIELDS = {variable(name): name for name in Settings.model_fields}
SECRETS = {
    variable(name): name for name, field in Settings.model_fields.items() if holds_secret(field.annotation)
}
FILES = {f"{name}_FILE": field for name, field in SECRETS.items()}
KNOWN = sorted(FIELDS | FILES)
MAX_BYTES = 65_536
"""Of a secret's file: a larger one is another file than was meant."""

# It would log secrets, where PYDANTIC_SETTINGS_DEBUG asks for it.
logging.getLogger("pydantic_settings").disabled = True


class Variables(EnvSettingsSource):
    """Variables of the environment that the caller hands over."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        # In place of this process's environment, which the library has taken.
        self.env_vars = {name.lower(): text for name, text in environ.items() if name in FIELDS}


class SecretFiles(PydanticBaseSettingsSource):
    """Secrets, each in a file of its own. files: by field; problems: gets a line for each of no use."""

    def __init__(self, files: Mapping[str, Path], problems: list[str]) -> None:
        super().__init__(Settings)
        self._files, self._problems = files, problems

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Read the file of one field; ValueError says what is wrong with it."""
        return _text_of(self._files[field_name]), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Read all files."""
        texts = {}
        for name, file in self._files.items():
            try:
                texts[name], *_ = self.get_field_value(Settings.model_fields[name], name)
            except ValueError as error:
                self._problems.append(f"{variable(name)}: {str(file)!r} {error}")
        return texts


def _text_of(file: Path) -> str:
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise ValueError(f"is no file of at most {MAX_BYTES} bytes")
        text = file.read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("holds no text in UTF-8") from None
    if not text or "\0" in text:
        raise ValueError("holds a NUL" if text else "is empty")
    return text


def read(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return what is given, by field, and each problem of how it is given."""
    given = {name: text for name, text in environ.items() if text.strip()}
    problems = [_unknown(name) for name in sorted(environ) if _is_ours(name) and name not in KNOWN]
    named = {field: Path(given[name].strip()) for name, field in FILES.items() if name in given}
    folder = _files_in(Path(given[SECRETS_DIR].strip()), problems) if SECRETS_DIR in given else {}
    # Asked one by one: the library would take the first that has a value, and not say so.
    found = {
        "{}": Variables(given)(),
        "{}_FILE": SecretFiles(named, problems)(),
        SECRETS_DIR: SecretFiles(folder, problems)(),
    }
    for name, field in SECRETS.items():
        ways = [way.format(name) for way, texts in found.items() if field in texts]
        if len(ways) > 1:
            problems.append(f"{name}: is given by {' and by '.join(ways)}: leave one")
    return {field: text for texts in found.values() for field, text in texts.items()}, problems


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX) and not name.startswith(IGNORED_PREFIX)


def _unknown(name: str) -> str:
    nearest = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
    return f"{name}: no such setting" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _files_in(folder: Path, problems: list[str]) -> dict[str, Path]:
    """Find the secrets' files, by field; a file that is called almost like one is a problem."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        problems.append(f"{SECRETS_DIR}: {str(folder)!r} cannot be read: {error.strerror}")
        return {}
    problems += [
        f"{SECRETS_DIR}: {name!r} is no secret's name; there are {', '.join(SECRETS)}"
        for name in names
        if (_is_ours(name) or name.upper() in SECRETS) and name not in SECRETS
    ]
    return {SECRETS[name]: folder / name for name in names if name in SECRETS}


def without_files(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return an environment with all secrets in variables: processes of ours get some other ones."""
    own = {name: text for name, text in environ.items() if name not in {SECRETS_DIR, *FILES, *SECRETS}}
    for name, field in SECRETS.items():
        match getattr(settings, field):
            case SecretStr() as secret:
                own[name] = secret.get_secret_value()
            case tuple() as shards:
                own[name] = " ".join(shard.text.get_secret_value() for shard in shards)
    return own
