"""Files of the repository that a page of the site shows, as code: where it says `<!-- file: PATH -->`."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HERE = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with those files written out. MkDocs calls this for each page."""

    def shown(found: re.Match[str]) -> str:
        path = ROOT / found[1]
        return f"```{path.suffix[1:].replace('mjs', 'js')}\n{path.read_text(encoding='utf-8')}```"

    return HERE.sub(shown, markdown)
