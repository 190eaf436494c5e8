"""Writes docs/reference.md from the code: settings, metrics, command line, control commands, errors.

`python -m docs.reference` writes it (`make reference`); with `--check` it only says whether it is out of date
(`make check`). It needs no database. It is no part of the program, and not in its wheel.
"""

import ast
import collections
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from inspect import getsource
from itertools import pairwise
from pathlib import Path

import typer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from pydantic.fields import FieldInfo
from typer.core import TyperCommand, TyperGroup

from webhook_dispatcher import words
from webhook_dispatcher.api.catalogue import CATALOGUE, NOT_FOUND_BEHIND, RANGES, message
from webhook_dispatcher.api.metrics import ApiMetrics
from webhook_dispatcher.cli.failures import EXIT_CODES, NAME
from webhook_dispatcher.cli.late import LateCommand
from webhook_dispatcher.cli.program import program
from webhook_dispatcher.domain.command import COMMANDS, Code
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.fields import variable
from webhook_dispatcher.settings.forms import Form
from webhook_dispatcher.settings.shown import shown
from webhook_dispatcher.telemetry.metrics import SHARD, Metrics, ProcessMetrics

FILE = Path(__file__).with_suffix(".md")
Metric = Counter | Gauge | Histogram

INTRODUCTION = """\
# Reference

Written from the code by `make reference`; do not edit it by hand. How these things are used is in
[operations](operate/index.md), what of them is promised in [the contract](contract.md).
"""
SETTINGS = """\
## Settings

Variables of the environment, read once at start. Durations are ISO 8601. A misspelt `WEBHOOK_*` name is an
error, as is any malformed value; names that begin with `WEBHOOK_DISPATCHER_` are ignored, an empty value
counts as not set. Each secret may stand in a file instead ([how](operate/installing.md)). They are
declared in `src/webhook_dispatcher/settings/fields.py`.
"""
METRICS = """\
## Metrics

Served for Prometheus at `/metrics` of `WEBHOOK_OPS_ADDRESS`, those that begin with `webhook_api_` at
that of `WEBHOOK_API_OPS_ADDRESS`. Gauges of the database (`webhook_pending`,
`webhook_oldest_*`) are the same from every daemon: take the maximum (by `shard`, where databases have names),
not the sum. No label holds a merchant, a URL or an id. They are declared in
`src/webhook_dispatcher/telemetry/metrics.py`.
"""
LABELS = """\
Values that labels have from the start, so that the first increase counts too:
"""
COMMAND_LINE = """\
## Command line

`webhook-dispatcher COMMAND`, or `python -m webhook_dispatcher COMMAND`; `--version` prints the version, and
every command takes `--help`. `migrate` and `check` do all databases. The control command `cancel` is for SQL
alone. Many commands take:
"""
EXIT = """\
### Exit codes
"""
CONTROL_COMMANDS = """\
## Control commands

Rows that are inserted into `webhook.control` ([how](operate/commands.md)). `args` is a JSON
object; instants in it need an offset (`Z`, `+00:00`).
"""
ERRORS = """\
### Error codes
"""
API_ERRORS = """\
## Errors of the Partner API

What `error` holds ([contract 7](contract.md#7-partner-api)); which codes an operation may answer with is in
`GET /openapi.json`. -11004, -16001 and beyond, the types and the words are our own choice; Russian and Uzbek
ones are in `src/webhook_dispatcher/words`. Those of shares, charges, recipients, cards, the provider and the
fiscal profile come from the charge service alone.
"""
API_RANGES = """\
A code of one of these ranges that is not above comes from the charge service, with its status:
"""
SQL = """\
## SQL

Tables, views, columns and roles that others may rely on are in
[the contract](contract.md#3-sql-schema-webhook-in-the-charge-services-own-database); `migrate --sql` prints
all there is.
"""
MANY = 5
"""So many commands that have an option alike share its description."""


CODES = {
    Code.INVALID_URL: "the URL is refused (`set_url`)",
    Code.NOT_CONFIGURED: "the merchant has no endpoint",
    Code.NOT_FOUND: "no delivery of this event is known",
    Code.WRONG_STATE: "the state [does not allow it](operate/commands.md#what-a-state-does-not-allow)",
    Code.MALFORMED: "malformed, or an unknown command",
}


def reference() -> str:
    """Write the whole file."""
    parts = [
        INTRODUCTION,
        SETTINGS,
        settings_table(),
        METRICS,
        metrics_table(),
        LABELS,
        labels_table(),
        COMMAND_LINE,
        *_command_texts(),
        EXIT,
        _table(("code", "meaning"), ((str(code), meaning) for code, meaning in EXIT_CODES.items())),
        CONTROL_COMMANDS,
        control_table(),
        ERRORS,
        _table(("`error_code`", "when"), ((str(int(code)), CODES[code]) for code in Code)),
        API_ERRORS,
        errors_table(),
        API_RANGES,
        ranges_table(),
        SQL,
    ]
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def settings_table() -> str:
    """List every setting, in the order of their declaration."""
    meanings = _meanings()
    rows = (
        (f"`{variable(name)}`", _shape(field), _default(field), meanings[name])
        for name, field in Settings.model_fields.items()
    )
    return _table(("name", "type", "default", "meaning"), rows)


def _shape(field: FieldInfo) -> str:
    [form] = (found for found in field.metadata if isinstance(found, Form))
    return form.shape


def _default(field: FieldInfo) -> str:
    in_words = [found for found in field.metadata if isinstance(found, str)]
    default = shown(field.default)
    return in_words[0] if in_words else "none" if default is None else f"`{default}`"


def _meanings() -> dict[str, str]:
    """Read the texts below the fields: at run time nobody needs them."""
    found = {}
    [settings] = ast.parse(getsource(Settings)).body
    for field, text in pairwise(ast.iter_child_nodes(settings)):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                found[name] = _prose(meaning)
    return found


def _metrics() -> Iterator[tuple[str, Metric]]:
    """Make all metrics, the Partner API's too, and name each as Prometheus sees it."""
    daemon = Metrics("of the program", shard="its name")
    processes = ProcessMetrics(CollectorRegistry(), ["its name"], lambda *_: 0, 0.0)
    api = ApiMetrics("of the program", (), lambda: 0, list)
    for metric in (*vars(daemon).values(), *vars(processes).values(), *vars(api).values()):
        if isinstance(metric, Metric):
            family = next(iter(metric.collect()))
            yield family.name + ("_total" if family.type == "counter" else ""), metric


def metrics_table() -> str:
    """List every metric."""
    rows = []
    for name, metric in _metrics():
        family = next(iter(metric.collect()))
        labels = ", ".join(map(_label, metric._labelnames))
        rows.append((f"`{name}`", family.type, labels, family.documentation))
    return _table(("name", "type", "labels", "meaning"), rows)


def _label(name: str) -> str:
    return f"`{name}` where databases have names" if name == SHARD else f"`{name}`"


def labels_table() -> str:
    """List the values that labels have from the start, and the metrics that have them."""
    named: dict[tuple[str, tuple[str, ...]], list[str]] = collections.defaultdict(list)
    for name, metric in _metrics():
        samples = [sample for family in metric.collect() for sample in family.samples]
        for label in set(metric._labelnames) - {SHARD, "version"}:
            if values := dict.fromkeys(sample.labels[label] for sample in samples):
                named[label, tuple(values)].append(name)
    rows = (
        (f"`{label}`", _quoted(metrics), _quoted(values))
        for (label, values), metrics in sorted(named.items())
    )
    return _table(("label", "of", "values"), rows)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def commands(
    group: TyperGroup | None = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, TyperCommand]]:
    """Load every command that is shown, and name it with the groups it is in."""
    for name, command in (group or program()).commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))
        elif isinstance(command, LateCommand) and not command.hidden:
            yield " ".join((*path, name)), command.load()


def _command_texts() -> Iterator[str]:
    """Describe the options that many commands share, and then each command with its own."""
    named = [(name, command, _parameters(name, command)) for name, command in commands()]
    times = collections.Counter(line for *_, lines in named for line in lines if line.startswith("- `--"))
    shared = {line for line, count in times.items() if count >= MANY}
    yield "".join(f"{line}\n" for line in times if line in shared)
    for name, command, lines in named:
        context = typer.Context(command, info_name=name)
        usage = " ".join([NAME, name, *command.collect_usage_pieces(context)])
        others = ", ".join(f"`{line.split('`')[1].split()[0]}`" for line in lines if line in shared)
        listed = [*(line for line in lines if line not in shared), *([f"- also {others}"] if others else [])]
        example = str(command.epilog).removeprefix("Example: ")
        parameters = "".join(f"{line}\n" for line in listed)
        parts = [f"### {name}\n", f"`{usage}`\n", f"{command.help}\n", parameters, f"Example: `{example}`\n"]
        yield "\n".join(filter(None, parts))


def _parameters(name: str, command: TyperCommand) -> list[str]:
    context = typer.Context(command, info_name=name)
    described = (parameter.get_help_record(context) for parameter in command.params)
    return [f"- `{form}`: {_prose(meaning)}" for form, meaning in filter(None, described)]


def _prose(text: str) -> str:
    """Put white space right, and keep what stands in angle brackets from being taken for HTML."""
    return re.sub(r"<(?=[a-z])", "&lt;", " ".join(text.split()))


def control_table() -> str:
    """List every control command."""
    rows = []
    for name, spec in COMMANDS.items():
        rows.append((f"`{name}`", spec.needs, spec.takes, spec.effect, spec.result))
    return _table(("command", "needs", "may have", "does", "`result`"), rows)


def errors_table() -> str:
    """List every error of the Partner API, nearest to zero first."""
    rows = (
        (str(code), str(entry.status), entry.type, message(code, "en"))
        for code, entry in sorted(CATALOGUE.items(), reverse=True)
    )
    return _table(("code", "status", "type", "message"), rows)


def ranges_table() -> str:
    """List the ranges that an upstream's codes may be of."""
    rows = [
        (codes, known.type, words.template(f"api.{key}", "en"))
        for known in RANGES
        for codes, key in (
            (f"{known.first} to {known.last}", known.type),
            *((str(code), str(code)) for code in NOT_FOUND_BEHIND if code in known),
        )
    ]
    return _table(("codes", "type", "message"), rows)


def main(arguments: Sequence[str], file: Path = FILE) -> int:
    """Write the file, or with `--check` say whether it is what would be written."""
    written = reference()
    if list(arguments) != ["--check"]:
        file.write_text(written, encoding="utf-8")
    elif not file.is_file() or file.read_text(encoding="utf-8") != written:
        print("docs/reference.md is out of date: run make reference", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
