"""The site: links out of `docs` lead into the repository, and what falls apart ends the build."""

from types import SimpleNamespace

import pytest

from docs.as_written import on_page_content
from docs.outward_links import on_page_markdown

CONFIG = SimpleNamespace(extra={"repository": "https://git.example/us"})


@pytest.mark.parametrize(
    ("page", "written", "shown"),
    [
        ("a.md", "[b](../deploy/b.yaml)", "[b](https://git.example/us/blob/main/deploy/b.yaml)"),
        ("operate/a.md", "[b](../../README.md#run)", "[b](https://git.example/us/blob/main/README.md#run)"),
        ("operate/a.md", "[b](../contract.md#2) [c](c.md)", "[b](../contract.md#2) [c](c.md)"),
    ],
)
def test_links_out_of_the_documents_lead_into_the_repository(page: str, written: str, shown: str) -> None:
    given = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert on_page_markdown(written, page=given, config=CONFIG) == shown


@pytest.mark.parametrize(
    ("written", "shown", "falls_apart"),
    [
        ("1. a\n2. b\n", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>", False),
        ("1. a\n\n   b\n2. c\n", "<ol>\n<li>a</li>\n</ol>\n<p>b\n2. c</p>", True),
        ("1. a\n\n   ```\n   b\n   ```\n\n2. c\n", "<ol><li>a</li></ol><p>b</p><ol><li>c</li></ol>", True),
        ("```sh one\na\n```\n", "<p>```sh one\na</p>", True),
        ("```sh\n1. a\n```\n", "<pre><code>1. a\n</code></pre>", False),
    ],
)
def test_a_page_that_is_shown_otherwise_ends_the_build(written: str, shown: str, falls_apart: bool) -> None:
    page = SimpleNamespace(markdown=written, file=SimpleNamespace(src_uri="a.md"))
    if falls_apart:
        with pytest.raises(ValueError, match=r"a\.md: a fence, or an item"):
            on_page_content(shown, page=page)
    else:
        on_page_content(shown, page=page)
