"""The command line, whose API waits 0.5 s for the charge service and bodies, and holds keys for 1 s."""

from datetime import timedelta

from webhook_dispatcher.api import program, request_body
from webhook_dispatcher.cli import main

if __name__ == "__main__":
    program.UPSTREAM_TIME = program.CLAIM_MARGIN = timedelta(seconds=0.5)
    request_body.MAX_BODY_SECONDS = 0.5
    raise SystemExit(main())
