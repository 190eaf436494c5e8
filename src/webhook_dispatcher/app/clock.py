"""This machine's clocks: the one place where the daemon reads them."""

import time


class SystemClock:
    """This machine's clocks."""

    def elapsed(self) -> float:
        """Return seconds since boot, suspension included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def unix(self) -> float:
        """Return seconds since 1970."""
        return time.time()
