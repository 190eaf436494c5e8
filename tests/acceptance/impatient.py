"""`webhook-dispatcher run`, but merchants are suspended after seconds, which settings do not allow.

python -m tests.acceptance.impatient SUSPEND_AFTER SUSPENSION_INTERVAL
"""

import os
import sys

from webhook_dispatcher.app import run
from webhook_dispatcher.domain.duration import parse_duration
from webhook_dispatcher.settings import load_settings


def main(after: str, interval: str) -> int:
    """Run as `run` does, with these two durations; the environment has the rest."""
    durations = {"suspend_after": parse_duration(after), "suspension_interval": parse_duration(interval)}
    return run.run(load_settings(os.environ).model_copy(update=durations))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
