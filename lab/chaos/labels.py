"""How an endpoint is called in a run: as its merchant, and with a point and its number if that is above 1."""

from webhook_dispatcher.domain import lane


def label(name: str, number: int | None) -> str:
    """Return what a merchant's endpoint, or an event there, is called."""
    return name if number in (None, 1) else f"{name}.{number}"


def merchant_of(name: str) -> str:
    """Return whose endpoint it is."""
    return name.partition(".")[0]


event_of = merchant_of
"""Return which event it is, there."""


def number_of(name: str) -> int:
    """Return which of its merchant's it is."""
    return int(name.partition(".")[2] or 1)


def label_of(name: str) -> str:
    """Return what the endpoint is called to which a lane leads."""
    return label(lane.merchant_of(name), lane.number_of(name))


def lane_of(name: str) -> str:
    """Return the lane that leads to an endpoint of several."""
    return lane.lane_named(merchant_of(name), number_of(name))
