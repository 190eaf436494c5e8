"""Lanes' names are for the database alone: no page, answer, output or line of a log holds one."""

import re

_NAME = re.compile(rb"(?:\x1f|\\u001f|\\x1f|%1f|&#31;|&#x1f;)[1-9]", re.IGNORECASE)


def names_lane(text: bytes | str) -> bool:
    """Tell whether a text names one of several endpoints' lanes, escaped or not."""
    return _NAME.search(text.encode() if isinstance(text, str) else text) is not None
