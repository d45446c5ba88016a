"""Reports are pages that can be checked; what they compile outlives the run."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conv.conftest import quick_kernels

__all__ = ["quick_kernels"]

_VOID = {"meta", "br", "link", "img", "hr", "input"}


class Tags(HTMLParser):
    """Checks that tags match, and collects ids, links and what would be loaded."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.ids, self.links, self.loaded, self.names = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.names.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if not given.get("src", "data:").startswith("data:") or tag in (
            "script",
            "link",
            "iframe",
            "object",
        ):
            self.loaded.append((tag, given))
        if tag == "a":
            self.links.append(given["href"])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="session")
def check_page():
    """Check a page: complete by itself, nothing to load, links that lead somewhere; its `Tags`."""
    return _check_page


def _check_page(path: Path) -> Tags:
    text = path.read_text("utf-8")
    page = Tags(text)
    assert page.loaded == [] and "@import" not in text and "http-equiv" not in text
    assert not re.search(r"url\((?!#)", text)
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        found = link[1:] in page.ids if link.startswith("#") else (path.parent / link).is_file()
        assert found, link
    assert 'name="viewport"' in text
    assert "None" not in text and "nan" not in re.sub(r"base64,[^\"]*", "", text)
    return page
