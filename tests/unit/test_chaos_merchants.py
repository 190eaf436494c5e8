"""Who receives in a chaos run: which merchants accept everything, and which nothing."""

from random import Random

from lab.chaos.merchants import make_merchants


def test_some_merchants_accept_everything_some_nothing_and_some_now_and_then() -> None:
    cast = make_merchants(40, 30.0, Random(1))
    hopeless = [name for name, merchant in cast.items() if merchant.is_hopeless]
    sound = [name for name, merchant in cast.items() if merchant.is_sound]
    assert hopeless == ["m006", "m008", "m026"]
    faltering = {f"m{number:03}" for number in (3, 4, 5, 7, 23, 24, 25, 27)}
    assert cast.keys() - {*sound, *hopeless} == faltering
    assert [name for name, merchant in cast.items() if merchant.types] == list(cast)[2::3]
