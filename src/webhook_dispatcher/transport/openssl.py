"""How OpenSSL is started: with a configuration that says which groups TLS offers, as Python's ssl cannot.

OpenSSL reads its configuration when it is first used, and never again, from the file that OPENSSL_CONF names.
So a program starts it here before it imports anything that uses it. Nobody else is to find the variable:
`cryptography` has an OpenSSL of its own, and so may the programs that we start.
Source: docs/adr/0023-receivers-choose-among-what-is-cheap.md; openssl.cnf beside this.
"""

import importlib
import os
from pathlib import Path

_VARIABLE = "OPENSSL_CONF"
_CONFIGURATION = Path(__file__).with_name("openssl.cnf")


def start_openssl() -> None:
    """Start OpenSSL with openssl.cnf, unless OPENSSL_CONF names another; no effect if it was used before."""
    if _VARIABLE in os.environ:
        return
    os.environ[_VARIABLE] = str(_CONFIGURATION)
    try:
        importlib.import_module("hashlib")  # it looks for its algorithms, which starts OpenSSL
    finally:
        del os.environ[_VARIABLE]
