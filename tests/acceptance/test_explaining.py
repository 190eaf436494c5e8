"""`explain`, `status`, `merchants` and `deliveries list`, beside a daemon at work."""

from tests.acceptance.installation import PATIENT, Installation, Sent
from webhook_dispatcher.local.behaviour import Behaviour


def told(installation: Installation, *arguments: str) -> str:
    """Run a command of the command line; return what it printed, in one line."""
    done = installation.command(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return " ".join(done.stdout.split())


def explained(installation: Installation, event: Sent) -> str:
    return told(installation, "explain", str(event.id))


async def test_in_flight_and_pending_behind_a_merchant_that_hangs(installation: Installation) -> None:
    await installation.configure("m")
    installation.receiver.behave("m", Behaviour(hangs=True))
    await installation.start(**PATIENT)
    first, second = [await installation.emit("m", '{"id": "ch_1"}') for _ in range(2)]
    await installation.arrived(1)
    assert "It is the first in line, and dispatcher " in explained(installation, first)
    assert "its first attempt is in flight since about" in explained(installation, first)
    behind = explained(installation, second)
    assert "1 earlier event of m comes before it" in behind
    assert f"The first of them is seq {first.seq} (event {first.id})" in behind
    assert "the first attempt of that one is in flight since about" in behind
    of_charge = told(installation, "explain", "ch_1")
    assert of_charge.index(str(first.id)) < of_charge.index(f"Event {second.id}")
    screen = told(installation, "status")
    assert "backlog 2 wait for their first attempt, 0 for a retry" in screen
    assert f"event {first.id} of m" in screen
    assert "holds 1 lane" in screen
    listed = told(installation, "deliveries", "list", "--state", "pending", "--oldest-first", "--limit", "1")
    assert str(first.id) in listed
