"""What tests need besides Python: on a laptop they are skipped without it, in CI they may not be."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    """Skip the test, or fail it where CI is set: whoever runs CI sees to it that nothing is missing."""
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        pytest.skip(what)
    pytest.fail(f"{what} (CI is set: nothing may be skipped)", pytrace=False)


def program(name: str, package: str) -> Path:
    """Return the path of a program, or do without the test. package: what installs it."""
    found = shutil.which(name)
    return Path(found) if found else lacking(f"{name} is missing: apt-get install {package}")
