"""Fails the site's build where a page is not shown as it was written: a fence or a list fell apart."""

import re
from typing import Any

FENCED = re.compile(r"^ *(```+)[^`]*?^ *\1$", re.MULTILINE | re.DOTALL)
FIRST = re.compile(r"^ *1\. ", re.MULTILINE)
SHOWN_CODE = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
LEFT = re.compile(r"```|^\d+\. ", re.MULTILINE)


def on_page_content(html: str, *, page: Any, **_: Any) -> None:
    """Compare a page with its text. MkDocs calls this for each page; ValueError ends the build."""
    lists, shown = len(FIRST.findall(FENCED.sub("", page.markdown))), SHOWN_CODE.sub("", html)
    if lists != shown.count("<ol") or LEFT.search(shown):
        raise ValueError(
            f"{page.file.src_uri}: a fence, or an item of {lists} numbered lists, is shown as text: "
            'indent what belongs to an item by four spaces, and name a block by title="..."'
        )
