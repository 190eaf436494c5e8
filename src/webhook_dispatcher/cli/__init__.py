"""The command line: `main` is the console script."""

from webhook_dispatcher.cli.program import main

__all__ = ["main"]
