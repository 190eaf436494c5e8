"""Links of the site: those out of `docs` lead into the repository, others stay."""

from types import SimpleNamespace

import pytest

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
