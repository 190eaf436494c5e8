"""What is wrong with a request's form, whatever it asks for; each server has words of its own for it."""

from enum import Enum, auto


class Fault(Enum):
    """What is wrong. The connection ends with it. CROWDED: its address has too many requests under way."""

    MALFORMED = auto()
    HEAD_TOO_LARGE = auto()
    BODY_TOO_LARGE = auto()
    TOO_SLOW = auto()
    CONNECT = auto()
    EXPECTATION = auto()
    CROWDED = auto()


class RequestRefused(Exception):
    """A request was parsed as far as it has come, and is not what it must be."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.name)
        self.fault = fault
