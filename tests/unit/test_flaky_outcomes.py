"""What differs between runs of the suite is told, with why; what is always the same is not."""

from pathlib import Path

from lab.flaky.outcomes import differences, read

RUN = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_same" file="tests/unit/test_a.py"/>
<testcase classname="tests.unit.test_a" name="test_left_out" file="tests/unit/test_a.py"><skipped/></testcase>
{further}</testsuite></testsuites>"""
PASSES = '<testcase classname="tests.unit.test_a.TestB" name="test_c[1]" file="tests/unit/test_a.py"/>'
FAILS = PASSES.replace("/>", '><failure message="assert 1 == 2&#10;more"/></testcase>')


def runs(folder: Path, *further: str) -> list[str]:
    read_of = {}
    for number, text in enumerate(further, 1):
        file = folder / f"run-{number}.xml"
        file.write_text(RUN.format(further=text))
        read_of[number] = read(file)
    return [line for difference in differences(read_of) for line in difference.lines()]


def test_what_is_the_same_in_all_runs_is_not_told(tmp_path: Path) -> None:
    assert runs(tmp_path, PASSES, PASSES) == []


def test_a_test_that_failed_once_is_told_with_the_run_and_the_reason(tmp_path: Path) -> None:
    assert runs(tmp_path, PASSES, FAILS, PASSES) == [
        "tests/unit/test_a.py::TestB::test_c[1]",
        "  failed in 1 run (2): assert 1 == 2",
        "  passed in 2 runs (1, 3)",
    ]


def test_a_test_that_always_fails_is_told(tmp_path: Path) -> None:
    assert "  failed in 2 runs: assert 1 == 2" in runs(tmp_path, FAILS, FAILS)


def test_a_test_that_was_missing_once_is_told(tmp_path: Path) -> None:
    assert "  missing in 1 run (2)" in runs(tmp_path, PASSES, "")


def test_a_run_that_was_cut_short_has_no_outcomes(tmp_path: Path) -> None:
    assert read(tmp_path / "none.xml") == {}
    (tmp_path / "half.xml").write_text("<testsuites>")
    assert read(tmp_path / "half.xml") == {}
