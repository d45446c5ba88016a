"""`winogen lab search-loops`: what it prints, refuses; tests/laboratory kills and resumes it."""

import json

import pytest

from winogen_lab.loops.parameters import Parameters

LAYER = ("lab", "search-loops", "--input", "1,4,6,7", "--weight", "3,4,3,3", "--layout", "NHWC")
FEW = (
    *(text for dim in "MHWCYX" for text in ("--range", f"block_{dim}=None")),
    *(text for dim in "MHWCYX" for text in ("--range", f"unroll_{dim}=1")),
    *("--range", "strategy=filters-c", "--range", "prefetch=", "--range", "pixels=2,3"),
    *("--range", "filters=1", "--range", "kernel=YXCM", "--range", "copies=explicit"),
    *("--range", "rows=1"),
)


def test_counts(winogen):
    whole = int(winogen(*LAYER, "--count").stdout.split()[0].replace(",", ""))
    few = winogen(*LAYER, *FEW, "--count").stdout
    assert few == "240 nests\n" and whole > 10**9  # two register blocks, 5! orders


CONFIG = """
input = [1, 4, 6, 7]
weight = "3,4,3,3"
layout = "NHWC"
padding = 1
count = true

[ranges]
strategy = ["filters-c"]
prefetch = [""]
block_H = ["None", 3]
"""


def test_options_from_a_file(winogen, refused, tmp_path):
    path = tmp_path / "layer.toml"
    path.write_text(CONFIG)
    typed = (*LAYER, "--padding", 1, "--count", "--range", "strategy=filters-c")
    typed += ("--range", "prefetch=")
    three = winogen(*typed, "--range", "block_H=None,3").stdout
    assert winogen("lab", "search-loops", "--config", path).stdout == three
    none = winogen(*typed, "--range", "block_H=None").stdout
    ranges = [word for one in ("strategy=filters-c", "prefetch=", "block_H=None")
              for word in ("--range", one)]  # fmt: skip
    assert winogen("lab", "search-loops", "--config", path, *ranges).stdout == none != three
    for text, message in (
        ("height = 3", "config: got 'height'; allowed: all-layouts, best,"),
        ("ranges = 3", "config: got 'ranges'; allowed: "),
        ("best = {a = 1}", "config, best: got {'a': 1}; allowed: text, a number"),
        ("best", "which is not TOML"),
        (CONFIG.replace("block_H", "block_Q"), "range: got 'block_Q'"),
    ):
        path.write_text(text)
        assert message in refused("lab", "search-loops", "--config", path)


@pytest.mark.thorough
def test_prints_the_fastest_beside_direct(winogen, tmp_path):
    path = tmp_path / "nests.jsonl"
    once = (*LAYER, *FEW, "--traversal", "random", "--draws", 1, "--rounds", 1, "-o", path)
    lines = winogen(*once).stdout.splitlines()
    assert lines[0] == "2 nests measured, 0 failed"  # the usual one, too
    assert lines[3].endswith("direct convolution, for comparison")
    times = [float(line.split()[0]) for line in lines[4:]]
    assert times == sorted(times) and len(times) == 2
    assert Parameters.from_text(lines[4].split(None, 2)[2]).strategy.startswith("filters-")
    assert len(path.read_text().splitlines()) == 4
    found = json.loads(winogen(*once, "--json").stdout)
    assert len(found["nests"]) == 2 and found["failed"] == []
    assert len(path.read_text().splitlines()) == 4  # nothing was done again


def test_refusals(refused, tmp_path):
    assert "traversal: got 'luck'" in refused(*LAYER, "--traversal", "luck")
    assert "image: got CHW; allowed: HWC" in refused(*LAYER, "--range", "image=CHW")
    assert "range: got 'imge'; allowed: strategy, image" in refused(*LAYER, "--range", "imge=CHW")
    assert "range: got 'image'; allowed: NAME=VALUE" in refused(*LAYER, "--range", "image")
    for option in ("draws", "best", "rounds", "near", "shared"):
        assert f"{option}: got 0; allowed: a number >= 1" in refused(*LAYER, f"--{option}", 0)
    assert "layout: got 'HWC'" in refused(*LAYER[:-2], "--layout", "HWC")
    assert "isa: got 'mmx'" in refused(*LAYER, "--isa", "mmx")
    notes = tmp_path / "notes.txt"
    notes.write_text("my thesis\n")
    assert "notes.txt" in refused(*LAYER, "-o", notes)
    assert notes.read_text() == "my thesis\n"
