"""A short run of `make fuzz` over URLs."""

from tests.fuzz.urls import fuzz_urls


def test_mutated_urls_are_refused_or_harmless() -> None:
    verdicts = fuzz_urls(20_000, seed=20261121)
    assert verdicts.total() == 20_000
    assert min(verdicts["accepted"], verdicts["refused"]) > 500
