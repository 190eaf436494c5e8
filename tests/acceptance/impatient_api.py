"""The command line, whose API waits 0.5 s for the charge service and bodies, and holds keys for 1 s."""

from datetime import timedelta

from webhook_dispatcher.api import program
from webhook_dispatcher.cli import main
from webhook_dispatcher.web import body

if __name__ == "__main__":
    program.UPSTREAM_TIME = program.CLAIM_MARGIN = timedelta(seconds=0.5)
    body.MAX_SECONDS = body.MAX_SECONDS_OF_STRANGERS = 0.5
    raise SystemExit(main())
