"""Which build this is: `0.1.0` at that tag, `0.1.1.dev300+gabc1234` three hundred commits later.

A wheel has it in its metadata. Those of a checkout are as old as its last `pip install`; there git is asked,
by what `pip install` asks too, whenever this is imported: for `--version` and to serve, not for `--help`.
"""

import os
import warnings
from importlib import metadata
from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]
_PRETENDED = "SETUPTOOLS_SCM_PRETEND_VERSION"
"""The library's own variable, looked at before a tenth of a second is spent on importing it."""


def _of_checkout() -> str | None:
    if not (_CHECKOUT / ".git").exists():
        return None
    if version := os.environ.get(_PRETENDED):
        return version
    try:
        from setuptools_scm import get_version

        with warnings.catch_warnings(action="ignore"):  # that a clone is shallow
            return get_version(_CHECKOUT)
    except (ImportError, LookupError):  # only what running takes is installed; git is not, or refuses
        return None


def _of_installed() -> str:
    try:
        return metadata.version("webhook-dispatcher")
    except metadata.PackageNotFoundError:
        return "0.0"


__version__ = _of_checkout() or _of_installed()
PUBLIC_VERSION = __version__.partition("+")[0]
"""For merchants, to whom commits say nothing."""
USER_AGENT = f"webhook-dispatcher/{PUBLIC_VERSION}"
