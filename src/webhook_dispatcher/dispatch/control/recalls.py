"""Recalls: polls for lanes whose session an operator wants ended, and for the pause of everything."""

from webhook_dispatcher.dispatch.dispatcher import Dispatcher
from webhook_dispatcher.dispatch.instruments import OperatorPause
from webhook_dispatcher.dispatch.pace import Interval
from webhook_dispatcher.domain.ports import Claims

RECALL_INTERVAL = Interval(0.25)
"""Nothing starts in a recalled session after a second (contract 3), so a slow database is asked as often."""


async def obey_recalls(claims: Claims, dispatcher: Dispatcher, pause: OperatorPause) -> None:
    """Poll once, end the sessions of recalled lanes, and begin or end the pause of everything."""
    recalls = await claims.read_recalls()
    pause.set(recalls.everything_is_paused)
    for lane in recalls.lanes:
        dispatcher.recall(lane)
