"""Writes the folders of the package into docs/internals/architecture.md, from how their docstrings begin.

`python -m docs.tree` writes them (`make reference`); with `--check` it only says whether they are out of date
(`make check`). With `--files` it draws every file too, as the site does.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "internals" / "architecture.md"
PACKAGE = Path(__file__).parents[1] / "src" / "webhook_dispatcher"
BEGIN, END = "```text\nsrc/webhook_dispatcher/\n", "```"
NOT_PYTHON = {
    "sql": "every statement, by subject",
    "templates": "the console's pages, in HTML",
    "static": "one stylesheet, one script, htmx with its licence",
}
"""Folders without a docstring."""
DRAWN_HERE = "<!-- every file -->"
"""On a page of the site: every file follows."""


def tree(*, with_files: bool = False) -> str:
    """Draw the package: folders, or folders after files, each with what it says of itself."""
    return "".join(f"{line}\n" for line in _drawn(PACKAGE, "", with_files=with_files))


def _drawn(folder: Path, indent: str, *, with_files: bool) -> Iterator[str]:
    files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    folders = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name != "__pycache__"]
    for child in (*(files if with_files else ()), *folders):
        name = child.name + ("/" if child.is_dir() else "")
        yield f"{indent}{name:<24} {_said(child)}".rstrip()
        if child.is_dir() and child.name not in NOT_PYTHON:
            yield from _drawn(child, f"{indent}    ", with_files=with_files)


def _said(path: Path) -> str:
    if path.name in NOT_PYTHON:
        return NOT_PYTHON[path.name]
    source = path / "__init__.py" if path.is_dir() else path
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return shortened(docstring.partition("\n")[0])


def shortened(line: str) -> str:
    """Cut a line where it begins to explain: behind three words, at a colon, semicolon or full stop."""
    found = re.match(r"((?:\S+ ){2,}?\S*?)[:;.] ", line)
    return found[1] if found else line.removesuffix(".")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Draw every file where a page asks for it. MkDocs calls this for each page."""
    if DRAWN_HERE not in markdown:
        return markdown
    return markdown.replace(DRAWN_HERE, f"{BEGIN}{tree(with_files=True)}{END}")


def main(arguments: Sequence[str], file: Path = FILE) -> int:
    """Write the tree into the page; with `--check` say whether it is there, with `--files` draw all of it."""
    if list(arguments) == ["--files"]:
        sys.stdout.write(tree(with_files=True))
        return 0
    page = file.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    written = before + begin + tree() + END + rest.partition(END)[2]
    if list(arguments) != ["--check"]:
        file.write_text(written, encoding="utf-8")
    elif page != written:
        print(
            "The tree in docs/internals/architecture.md is out of date: run make reference", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
