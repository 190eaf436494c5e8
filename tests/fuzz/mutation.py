"""Mutations of text and bytes, drawn from a seeded generator."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Sliced = TypeVar("Sliced", str, bytes)


def mutated(corpus: Sequence[Sliced], tokens: Sequence[Sliced], random: Random) -> Sliced:
    """Take one of the corpus and change it up to four times; now and then not at all."""
    text = random.choice(corpus)
    for _ in range(random.randrange(5)):
        text = _changed(text, corpus, tokens, random)
    return text


def _changed(text: Sliced, corpus: Sequence[Sliced], tokens: Sequence[Sliced], random: Random) -> Sliced:
    """Cut out, cut off, double, insert, replace or splice."""
    start = random.randrange(len(text) + 1)
    end = min(len(text), start + 1 + min(random.randrange(12), random.randrange(12)))
    match random.randrange(7):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return text[:start]
        case 2:
            return text[:end] + text[start:]
        case 3 | 4:
            return text[:start] + random.choice(tokens) + text[start:]
        case 5:
            return text[:start] + random.choice(tokens) + text[end:]
        case _:
            other = random.choice(corpus)
            return text[:start] + other[random.randrange(len(other) + 1) :]
