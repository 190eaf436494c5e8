"""The list of `make test-mutations` fits the sources."""

from lab.mutations.entries import LIST, faults, read


def test_every_mutation_changes_one_place_of_a_file_that_then_compiles() -> None:
    assert list(faults(read(LIST))) == []
