"""Reads in a log of 31 days, beside few rows and many: what they cost, as a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.statement_cost import Cost
from webhook_dispatcher.storage.session import PLANNED_ONCE, session_settings

USUAL_SECONDS = 300
ROWS_A_SECOND = 1_500
"""Filled by a busy machine, with what is read of them."""
READ_TIME = timedelta(minutes=2)
MAKE_PARTITIONS = """
DO $$
DECLARE
    today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    day date;
BEGIN
    SET ROLE webhook_owner;
    -- The template has some: those around the day on which it was migrated, which may be yesterday.
    FOR day IN SELECT generate_series(today - 22, today + 8, interval '1 day')::date LOOP
        EXECUTE format(
            'CREATE TABLE IF NOT EXISTS webhook.%I '
            'PARTITION OF webhook.delivery_log FOR VALUES FROM (%L) TO (%L)',
            'delivery_log' || to_char(day, '_YYYYMMDD'),
            day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00'
        );
    END LOOP;
    RESET ROLE;
END
$$
"""


async def set_as_programs_do(session: asyncpg.Connection) -> None:
    """Give a session the settings that the API's and the console's have: nothing is compiled, for instance.

    It is one that has filled the database: a new one looks up the catalogue in its first statement.
    """
    for name, value in {**session_settings("reads", READ_TIME), **PLANNED_ONCE}.items():
        await session.execute(f"SET {name} = '{value}'")


def patience(rows: int) -> pytest.MarkDecorator:
    """Let the first test take as long as it takes to fill that many rows."""
    return pytest.mark.timeout(USUAL_SECONDS + rows // ROWS_A_SECOND)


@dataclass
class Found:
    """What reads cost, by name; of several plans the dearer one. few, many: the rows there were."""

    few: int
    many: int
    costs: dict[str, tuple[int, int, float]] = field(default_factory=dict)

    def add(self, name: str, costs: Mapping[int, Cost]) -> None:
        """Keep what a read cost."""
        dearer = costs[self.few].buffers, costs[self.many].buffers, costs[self.many].milliseconds
        before = self.costs.get(name, (0, 0, 0.0))
        self.costs[name] = max(before[0], dearer[0]), max(before[1], dearer[1]), max(before[2], dearer[2])

    def print(self) -> None:
        """Print the table (pytest shows it with -s)."""
        print(
            f"\n| read | buffers, {self.few:,} rows | buffers, {self.many:,} rows | ms |\n|---|---|---|---|"
        )
        for name, (few, many, milliseconds) in self.costs.items():
            print(f"| {name} | {few:,} | {many:,} | {milliseconds:.1f} |")
