"""The report of a run: Markdown, JSON and a picture."""

import asyncio
import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from benchmarks.contest import Figure, Section

FACTS = "SELECT current_setting('server_version'), pg_jit_available()"


def server_facts(dsn: str) -> str:
    """Name a server, its version, and whether it compiles statements of whoever does not say no."""

    async def ask() -> asyncpg.Record:
        connection = await asyncpg.connect(dsn)
        try:
            (facts,) = await connection.fetch(FACTS)
            return facts
        finally:
            await connection.close()

    version, compiles = asyncio.run(ask())
    return f"PostgreSQL {version}, JIT {'on' if compiles else 'off'}"


def write(sections: Sequence[Section], folder: Path, name: str, server: str) -> str:
    """Write `<name>.md`, `.json` and `.png`; return the table of figures.

    server: what was measured on, as `server_facts` names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = [figure for section in sections for figure in section.figures]
    table = _table(figures)
    (folder / f"{name}.json").write_text(
        json.dumps({section.title: section.runs.as_json() for section in sections}, indent=1) + "\n"
    )
    _draw(sections, folder / f"{name}.png")
    parts = [
        f"# Benchmark, {datetime.now(UTC):%Y-%m-%d}",
        f"{server}, {os.cpu_count()} cores, Python {platform.python_version()}, load average at the end "
        f"{os.getloadavg()[0]:.1f}. Medians; `worker` is the process that posts. See benchmarks/README.md.",
        *(["\n".join(table)] if figures else []),
        f"![events a second]({name}.png)",
    ]
    for section in sections:
        parts += [f"## {section.title}", section.explanation, "\n".join(section.runs.table())]
    (folder / f"{name}.md").write_text("\n\n".join(parts) + "\n")
    return "\n".join(table)


def _table(figures: Sequence[Figure]) -> list[str]:
    lines = ["| figure | measured | wanted | |", "| --- | ---: | ---: | --- |"]
    for figure in figures:
        met = "" if not figure.wanted else "met" if figure.is_met else "**missed**"
        measured = f"{figure.value:.3g}"
        if figure.interval is not None:
            measured += " ({:.3g} … {:.3g})".format(*figure.interval)
        lines.append(f"| {figure.name} | {measured} | {figure.wanted} | {met} |")
    return lines


def _draw(sections: Sequence[Section], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(sections), 1, figsize=(8, 1.2 + 1.6 * len(sections)), squeeze=False, layout="constrained"
    )
    for axis, section in zip(axes[:, 0], sections, strict=True):
        contestants = [name for name in section.runs.of if name not in section.undrawn]
        medians = [section.runs.median(contestant) for contestant in contestants]
        rates = [[run.rate for run in section.runs.of[contestant]] for contestant in contestants]
        low = [middle - min(own) for middle, own in zip(medians, rates, strict=True)]
        high = [max(own) - middle for middle, own in zip(medians, rates, strict=True)]
        axis.barh(contestants, medians, xerr=[low, high], color="#4477aa", ecolor="#333333", height=0.6)
        axis.invert_yaxis()
        axis.set_title(f"{section.title}: events/s", fontsize=9, loc="left")
        axis.tick_params(labelsize=8)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
