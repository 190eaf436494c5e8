"""Links of the site that lead out of `docs`: into the repository, as mkdocs.yml names it."""

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<=\]\()(?:\.\./)+[^)\s]+")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return a page's text with such links written out. MkDocs calls this for each page."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def outward(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[0]))
        return link[0] if path.startswith("docs/") else f"{config.extra['repository']}/blob/main/{path}"

    return LINK.sub(outward, markdown)
