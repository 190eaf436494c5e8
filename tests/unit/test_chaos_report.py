"""What a chaos run leaves for people: a report and a picture."""

from pathlib import Path

from lab.chaos.evidence import Repeats
from lab.chaos.judge import judge
from lab.chaos.report import COLUMNS, row, summary, write_report
from tests.unit.chaos_evidence import EvidenceBuilder

ROOT = Path(__file__).parents[2]


def killed(exposed: int) -> EvidenceBuilder:
    builder = EvidenceBuilder()
    builder.event("d", 5)
    builder.request("d", 5.1)
    builder.attempt("d", 8, daemon="d2.1")
    builder.event("f", 6, merchant="m|2")
    for attempt in range(8):
        builder.attempt("f", 6.05 + attempt, status=500)
    builder.fail("f", "exhausted")
    builder.fault("kill -9", 5.2, 5.3, ["d1.1"], exposed)
    builder.fault("outage", 20, 25, stops_all=True)
    return builder


def write(builder: EvidenceBuilder, folder: Path) -> str:
    evidence = builder.evidence()
    write_report(judge(evidence), evidence, folder / "chaos", {"merchants": "2", "minutes": "2"})
    assert (folder / "chaos" / "picture.png").read_bytes().startswith(b"\x89PNG")
    return (folder / "chaos" / "report.md").read_text()


def test_the_report_says_what_was_done_and_what_came_of_it(tmp_path: Path) -> None:
    text = write(killed(exposed=1), tmp_path)
    assert text.startswith("# Chaos run, seed 1: passed\n")
    assert "| **lost** | **0** |" in text
    assert "| failed | 1 (1 exhausted) |" in text
    assert "| kill -9 | 1 | · | · | · | 1 | · | · | 1 | 1 | 1 | 100% | 100% | 2.80 | 2.80 |" in text
    assert "| merchants | 2 |" in text
    assert "make chaos SEED=1 MINUTES=2" in text
    assert "None." in text


def test_the_report_tells_the_history_of_what_was_broken(tmp_path: Path) -> None:
    text = write(killed(exposed=0), tmp_path)
    assert text.startswith("# Chaos run, seed 1: FAILED\n")
    assert "- too many duplicates: 1" in text
    assert "+5.100 A request from d1.1 to m1: 200, ended +5.120" in text


def test_the_report_says_how_others_fared_while_merchants_failed_together(tmp_path: Path) -> None:
    builder = EvidenceBuilder()
    for number in range(160):
        builder.sent(
            f"e{number}", 10 + number / 10, 10.1 + number / 10, merchant=f"m{number % 10}", committing=0
        )
    builder.fault("colluders", 18, 30, merchants=["g1"], repeats=Repeats.UNCOUNTED, alone_since=10)
    assert "| colluders | 0.097 | 0.097 | 1.291 |" in write(builder, tmp_path)


def test_the_summary_is_one_line() -> None:
    said = summary(judge(killed(exposed=1).evidence()))
    assert said == (
        "2 events, 10 requests: 0 lost, 0 out of order, 1 repeated (the faults explain up to 1); "
        "every promise kept"
    )


def test_a_run_is_a_row_of_the_table_that_is_kept() -> None:
    builder = killed(exposed=1)
    evidence = builder.evidence()
    made = row(judge(evidence), evidence, "1234567")
    assert made == "| 1 | 2.0 | 2 | 2 | 2 | 0 | 0 | 1 | 0 |  |  | 1234567 |"
    page = (ROOT / "docs" / "chaos" / "README.md").read_text(encoding="utf-8")
    head, _, *rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert head == f"| {' | '.join(COLUMNS)} |"
    assert rows
    assert {line.count(" | ") for line in rows} == {made.count(" | ")}
