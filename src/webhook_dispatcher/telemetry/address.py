"""How the address of the operators' server is written; settings read it without loading the server."""

import re

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")


def split_address(address: str) -> tuple[str, int]:
    """Split host:port; ValueError says what would be right."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(f"{address!r} is not host:port, such as 127.0.0.1:9464 or [::1]:9464")
    return match["v6"] or match["host"], int(match["port"])
