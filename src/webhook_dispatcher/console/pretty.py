"""JSON as people read it: the text with line breaks and indents, and nothing else about it changed.

Not parsed and written anew: digits of numbers, names that come twice and escapes stay as they were sent.
"""

import re

MAX_DEPTH = 64
MAX_LINES = 20_000
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+|\s+|"')
_CLOSING = {"{": "}", "[": "]"}


def pretty(text: str) -> str:
    """Return the text in lines; what is no JSON, or nested without end, as it is."""
    tokens = [found for found in _TOKEN.findall(text) if not found.isspace()]
    if len(tokens) > 4 * MAX_LINES:
        return text
    parts: list[str] = []
    depth = 0
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        before = tokens[place - 1] if place else ""
        if token in _CLOSING and following != _CLOSING[token]:
            depth += 1
            parts.append(token + _line(depth))
        elif token in ("}", "]") and _CLOSING.get(before) != token:
            depth -= 1
            parts.append(_line(depth) + token)
        else:
            parts.append({",": "," + _line(depth), ":": ": "}.get(token, token))
        if not 0 <= depth <= MAX_DEPTH:
            return text
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + "  " * depth
