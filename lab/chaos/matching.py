"""Giving each of some things a place of its own, where one can be had."""

from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from typing import TypeVar

Number = TypeVar("Number", bound=Hashable)


def match(
    numbers: Sequence[Number], reachable: Mapping[Number, Sequence[int]], found: MutableMapping[Number, int]
) -> None:
    """Give every number one of the places that it can reach, by exchanging (Kuhn's algorithm).

    found: the places given so far, by number; no number in it loses its place for good.
    """
    owner = {place: number for number, place in found.items()}

    def take(number: Number, tried: set[int]) -> bool:
        for place in reachable[number]:
            if place in tried:
                continue
            tried.add(place)
            if place not in owner or take(owner[place], tried):
                owner[place] = number
                found[number] = place
                return True
        return False

    for number in numbers:
        if number not in found:
            take(number, set())
