"""Several processes on one database: they share the work, and look like one daemon from outside."""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.load import PATIENCE, Load, all_settled, check_promises, repetitions
from tests.acceptance.supervised_processes import (
    asked,
    end,
    is_cumulative,
    pids,
    scraped,
    shares,
    start_processes,
    total,
)
from tests.waiting import until, until_found
from webhook_dispatcher.local.arrivals import out_of_order, overlapping
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.producer import Producer, Written

PROCESSES = 3
MERCHANTS = [f"m{number:02}" for number in range(60)]
EVENTS = 400
SECONDS = 2
DELIVERED = "webhook_deliveries_total"
RATE = 60.0
LEASE = {"LEASE": "PT3S", "ATTEMPT_TIMEOUT": "PT1S"}


@pytest.fixture(autouse=True)
async def _all_ended(installation: Installation) -> AsyncIterator[None]:
    yield
    for supervisor in installation.daemons:
        end(supervisor)


async def test_three_processes_share_the_work_and_count_it_as_one(installation: Installation) -> None:
    await installation.configure(*MERCHANTS)
    for merchant_id in MERCHANTS:
        installation.receiver.behave(merchant_id, Behaviour(delay=timedelta(milliseconds=10)))
    supervisor = await start_processes(installation, PROCESSES)
    sent: list[Written] = []
    producer = Producer(
        installation.database.dsn("webhook_producer"),
        dict.fromkeys(MERCHANTS, 1),
        on_written=sent.append,
        writers=4,
        rate=EVENTS / SECONDS,
    )
    await producer.run(EVENTS)
    await installation.all_delivered(EVENTS)

    arrivals = installation.receiver.arrivals
    assert Counter(arrival.event_id for arrival in arrivals) == Counter(str(event.id) for event in sent)
    assert out_of_order(arrivals, {str(event.id): event.seq for event in sent}) == []
    assert overlapping(arrivals) == []

    async def all_counted() -> dict[str, float] | None:
        samples = await scraped(supervisor)
        # What is owed, or under way, is measured now and then.
        left = samples["webhook_attempts_in_flight"] + samples.get("webhook_pending", 1)
        # A process that this machine kept from answering for a while is not ready, and is again.
        unready = PROCESSES - samples['webhook_processes{state="ready"}']
        return samples if total(samples, DELIVERED) == EVENTS and not left and not unready else None

    samples = await until_found(all_counted, PATIENCE)
    assert total(samples, "webhook_attempts_total") == EVENTS
    assert samples["webhook_delivery_lag_seconds_count"] == EVENTS
    assert samples['webhook_attempt_duration_seconds_bucket{le="+Inf",outcome="delivered"}'] == EVENTS
    assert samples['webhook_processes{state="ready"}'] == PROCESSES
    assert samples["webhook_process_restarts_total"] == 0
    assert total(samples, "webhook_build_info") == 1
    share = shares(supervisor)
    assert set(share) == {1, 2, 3}
    assert sum(share.values()) == EVENTS
    assert min(share.values()) > EVENTS / 10, share
    assert await asked(supervisor, "/readyz") == (200, "ready\n")
    assert await asked(supervisor, "/healthz") == (200, "ok\n")


async def test_killed_process_is_started_again_and_no_counter_falls(installation: Installation) -> None:
    await installation.configure(*MERCHANTS)
    supervisor = await start_processes(installation, PROCESSES, **LEASE)
    before = pids(supervisor)
    async with Load(installation.database.dsn("webhook_producer"), MERCHANTS, RATE) as load:
        await until(lambda: min(shares(supervisor).get(place, 0) for place in before) > 10, PATIENCE)
        scrapes = [await scraped(supervisor)]
        os.kill(before[2], signal.SIGKILL)

        async def is_named() -> bool:
            status, text = await asked(supervisor, "/readyz")
            return status == 503 and "process 2: ended by SIGKILL, starts again within 1 s" in text

        await until_found(is_named, PATIENCE)

        async def is_counted() -> bool:
            scrapes.append(await scraped(supervisor))
            return scrapes[-1]['webhook_processes{state="away"}'] == 1

        await until_found(is_counted, PATIENCE)

        async def is_ready() -> bool:
            scrapes.append(await scraped(supervisor))
            return (await asked(supervisor, "/readyz"))[0] == 200

        await until_found(is_ready, PATIENCE)
        after = pids(supervisor)
        done = shares(supervisor)[2]
        await until(lambda: shares(supervisor)[2] > done, PATIENCE)
    known = await all_settled(installation.owner, PATIENCE)
    arrivals = installation.receiver.arrivals
    check_promises(load.sent, arrivals, known)
    assert overlapping(arrivals) == []
    assert set(repetitions(arrivals, known).values()) <= {1}

    scrapes.append(await scraped(supervisor))
    assert scrapes[-1]["webhook_process_restarts_total"] == 1
    for former, latter in pairwise(scrapes):
        fell = {name for name in former if is_cumulative(name) and latter[name] < former[name]}
        assert fell == set()
    assert {place: pid for place, pid in after.items() if place != 2} == {1: before[1], 3: before[3]}
    assert after[2] != before[2]


async def test_frozen_process_is_named_and_goes_on(installation: Installation) -> None:
    supervisor = await start_processes(installation, PROCESSES)
    pid = pids(supervisor)[1]
    os.kill(pid, signal.SIGSTOP)

    async def is_named() -> bool:
        status, text = await asked(supervisor, "/readyz")
        return status == 503 and text.startswith("process 1: has said nothing for ")

    await until_found(is_named, PATIENCE)
    os.kill(pid, signal.SIGCONT)

    async def is_ready() -> bool:
        return (await asked(supervisor, "/readyz"))[0] == 200

    await until_found(is_ready, PATIENCE)
    assert pids(supervisor)[1] == pid
