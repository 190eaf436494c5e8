"""A command whose module is imported when it is asked for: lists and other commands do not wait for it."""

import importlib
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from webhook_dispatcher.cli.failures import NAME


def bare_program() -> typer.Typer:
    """Return a command line without commands; each is made from one like this, so that all look alike."""
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


class LateCommand(TyperCommand):
    """Stands for `webhook_dispatcher.cli.<module>.<function>`.

    summary: for lists of commands, and the beginning of the command's own help.
    help_: the command's own help; by default the function's docstring.
    """

    def __init__(
        self, source: str, summary: str, example: str | None = None, help_: str | None = None
    ) -> None:
        super().__init__(None, help=summary, hidden=example is None, rich_markup_mode=None)
        self._source = source
        self._example = example
        self._help = help_

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **options: Any) -> Any:
        """Import the command and hand over to it."""
        return self.load().make_context(info_name, args, *rest, **options)

    def load(self) -> Any:
        """Import the command."""
        module, _, function = self._source.partition(".")
        alone = bare_program()
        epilog = f"Example: {NAME} {self._example}" if self._example else None
        loaded = getattr(importlib.import_module(f"{__package__}.{module}"), function)
        alone.command(help=self._help, epilog=epilog)(loaded)
        return get_command(alone)
