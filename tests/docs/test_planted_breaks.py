"""The mistakes that scripts/planted_breaks.py plants can be planted: each text is there, once."""

import importlib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_what_a_break_replaces_is_there_once(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    breaks = importlib.import_module("planted_breaks").BREAKS
    assert len(breaks) >= 10
    for one in breaks:
        text = (ROOT / one.file).read_text("utf-8")
        assert text.count(one.old) == 1, one.name
        for word in one.tests:
            path = word.partition("::")[0]
            assert not path.endswith(".py") or (ROOT / path).is_file(), one.name
