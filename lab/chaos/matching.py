"""Giving each of some things a place of its own, where one can be had."""

from collections.abc import Mapping, MutableMapping, Sequence


def match(
    numbers: Sequence[int], reachable: Mapping[int, Sequence[int]], found: MutableMapping[int, int]
) -> None:
    """Give every number one of the places that it can reach, by exchanging (Kuhn's algorithm).

    found: the places given so far, by number; no number in it loses its place for good.
    """
    owner = {place: number for number, place in found.items()}

    def take(number: int, tried: set[int]) -> bool:
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
