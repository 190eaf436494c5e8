"""The command line, whose API waits for the charge service for half a second, and claims keys for one."""

from datetime import timedelta

from webhook_dispatcher.api import program
from webhook_dispatcher.cli import main

if __name__ == "__main__":
    program.UPSTREAM_TIME = program.CLAIM_MARGIN = timedelta(seconds=0.5)
    raise SystemExit(main())
