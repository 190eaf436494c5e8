"""How a lane is named: as its merchant, or as that, U+001F and the number of one of several endpoints.

No id of a merchant holds that character. SQL names lanes too: `webhook.lane_named`, `merchant_of`,
`endpoint_of`.
"""

_MARK = "\x1f"
MAX_ENDPOINTS = 16
"""A merchant has no more at once (webhook.add_endpoint)."""
MAX_NUMBER = 999
"""An endpoint's number is no higher (merchant_id_is_a_lane)."""


def lane_named(merchant_id: str, number: int | None) -> str:
    """Name the lane of a merchant's endpoint; None: the merchant's own."""
    return merchant_id if number is None else f"{merchant_id}{_MARK}{number}"


def merchant_of(lane: str) -> str:
    """Return the id of the merchant whose lane this is."""
    return lane.partition(_MARK)[0]


def number_of(lane: str) -> int | None:
    """Return the number of the endpoint whose lane this is; None: it is the merchant's own."""
    number = lane.partition(_MARK)[2]
    return int(number) if number.isdecimal() else None


def told(lane: str) -> dict[str, str | int]:
    """Return what a line of the log says of a lane."""
    merchant_id, number = merchant_of(lane), number_of(lane)
    if number is None:
        return {"merchant_id": merchant_id}
    return {"merchant_id": merchant_id, "endpoint": number}
