"""`winogen lab explain`: what it says of a stage, sums up, and prints as a command."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.kernels.count import Demand
from winogen.kernels.dots import of_variant
from winogen.toolchain.limits import Limits
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import explain
from winogen_lab.bench.explain_plot import save_plot
from winogen_lab.bench.explain_tables import markdown, render
from winogen_lab.bench.profile import STAGES
from winogen_lab.bench.roofline import Passage, Roof

ROOT = Path(__file__).parents[2]
LIMITS = Limits(1, {1: 100.0}, (("L2", 1 << 20, 50.0), ("memory", 1 << 30, 10.0)))
LAYERS = [
    {"name": "tiny", "input": [1, 16, 9, 11], "weight": [16, 16, 3, 3], "padding": 1},
    {"name": "strided", "input": [2, 4, 9, 9], "weight": [4, 4, 3, 3], "stride": 5},
]


@pytest.fixture(scope="module")
def document():
    """Two layers by `mcmr`, which one of them refuses."""
    layers = [BenchLayer.from_dict(fields) for fields in LAYERS]
    return explain.explain(layers, explain.Settings(algorithm="mcmr", tile=(2, 4)), limits=LIMITS)


def read_from(what, level, seconds):
    return Passage(what, level, False, int(seconds * 10e9), 10.0)


@pytest.mark.parametrize(
    "roof, demand, times, text",
    [
        (Roof(0.93, 0.9, ()), Demand(160, 10.0), 1, "arithmetic binds, 93% of the FMA peak"),
        (
            Roof(0.8, 0.9, ()), Demand(160, 10.0, loads=11.0), 1,
            "loads bind, 1.10 for each multiply-add: 90% of their rate",
        ),
        (
            Roof(0.5, 0.5, (read_from("V", "L2", 0.1), read_from("U", "L3", 0.7))),
            Demand(160, 10.0), 4, "traffic binds, 80% of its speed: U is read 4 times from L3",
        ),
        (
            Roof(0.0, 0.0, (read_from("U", "memory", 0.7),)), Demand(160, 10.0), 1,
            "traffic binds, 70% of its speed: U is read once from memory",
        ),
        (
            Roof(0.0, 0.0, (read_from("V again", "L2", 0.7),)), Demand(160, 10.0), 1,
            "traffic binds, 70% of its speed: V is read again from L2",
        ),
        (
            Roof(0.3, 0.0, ()), Demand(120, 10.0), 1,
            "arithmetic binds, 30% of the FMA peak; neither explains the time; 25% of the lanes "
            "are idle",
        ),
        (Roof(0.0, 0.0, ()), Demand(), 1, "nothing that takes time is counted"),
    ],
)  # fmt: skip
def test_the_verdict_says_what_binds(roof, demand, times, text):
    assert explain.verdict("multiply", 1.0, demand, roof, 16, times) == text


def test_the_peak_is_that_of_the_instruction():
    roof = Roof(0.9, 0.0, ())
    text = explain.verdict("multiply", 1.0, Demand(640, 10.0), roof, 64, 1, "the peak of sdot")
    assert text == "arithmetic binds, 90% of the peak of sdot"


def test_transforms_have_instructions_and_not_multiplications():
    text = explain.verdict("input transform", 1.0, Demand(instructions=1.0), Roof(0.7, 0, ()), 16)
    assert text == "arithmetic binds, 70% of the rate of vector instructions"


@pytest.mark.thorough
def test_a_layer_says_what_was_chosen_and_how_near_it_is(document):
    tiny, strided = document["layers"]
    assert (tiny["algorithm"], tiny["variant"], tiny["tile"]) == ("mcmr", "mcmr", [2, 4])
    assert tiny["roofline"]["reached"] == tiny["roofline"]["seconds"] / tiny["seconds"]
    assert [stage["name"] for stage in tiny["stages"]] == list(STAGES)
    assert sum(stage["share"] for stage in tiny["stages"]) == pytest.approx(1, rel=1e-3)
    for stage in tiny["stages"][:3]:
        limit = stage["limit"]
        assert limit["seconds"] == max(limit[f"{s}_s"] for s in ("arithmetic", "loads", "traffic"))
        assert stage["lost_s"] == pytest.approx(stage["seconds"] - limit["seconds"])
        assert stage["reached"] == limit["seconds"] / stage["seconds"] and stage["verdict"]
        assert all(move["bytes"] > 0 for move in limit["moves"])
    assert tiny["peak_share"] == tiny["gflops"] / tiny["fma_peak_gflops"]
    multiply = tiny["stages"][1]
    assert multiply["peak_share"] > tiny["peak_share"]  # the same products in less time
    assert multiply["gflops"] == 2 * tiny["multiplications"] / multiply["seconds"] / 1e9
    assert multiply["filled"] == 1.0
    assert strided["error"].startswith("algorithm") and "seconds" not in strided


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_layers_of_bytes_are_explained_too(layout, capsys):
    from rich.console import Console

    layers = [BenchLayer.from_dict(fields) for fields in LAYERS]
    found = explain.explain(layers, explain.Settings(dtype="int8", layout=layout), limits=LIMITS)
    for layer in found["layers"]:
        dot = of_variant(layer["variant"])
        assert layer["variant"] == layer["blocks"][0]["variant"] and layer["predicted_s"] > 0
        multiply = layer["stages"][1]
        # Of the layer all lanes are full; of the stage there may be more to do besides.
        least = 2 * layer["multiplications"] / layer["fma_peak_gflops"] / 1e9 / dot.rate
        assert layer["roofline"]["arithmetic_s"] == pytest.approx(least)
        assert multiply["limit"]["arithmetic_s"] >= least * (1 - 1e-9)
        assert 0 < multiply["filled"] <= 1
        assert sum(stage["share"] for stage in layer["stages"]) == pytest.approx(1, rel=1e-3)
        assert all(stage["verdict"] for stage in layer["stages"][:3])
    Console(width=250).print(render(found))
    printed = capsys.readouterr().out
    assert f"winogen {layout}, int8, 1 thread" in printed and "predicted" in printed


def test_a_layer_without_stages_has_a_sentence():
    fields = {"name": "wide", "input": [1, 1, 300, 400], "weight": [1, 1, 31, 31]}
    layers = [BenchLayer.from_dict(fields)]
    row = explain.explain(layers, explain.Settings(), limits=LIMITS)["layers"][0]
    said = r'algorithm: got "auto", which takes fft of .* in the lanes for wide; allowed: .* direct'
    assert re.fullmatch(said, row["error"])


def test_the_summary_says_where_most_is_lost():
    def row(seconds, *lost):
        stages = [{"name": n, "seconds": seconds / 4, "lost_s": s} for n, s in zip(STAGES, lost)]
        return {"name": "x", "seconds": seconds, "roofline": {"reached": lost[0]}, "stages": stages}

    found = explain.summarize(
        [row(4, 0.25, 0.9, 0.0, 0.5), row(4, 1, -0.5, 0.0, 0.5), {"name": "y"}]
    )
    assert found["lost"] == {
        "input transform": 1.25 / 8, "multiply": 0.9 / 8, "output transform": 0, "other": 1 / 8,
    }  # fmt: skip
    assert found["worst_stage"] == "input transform" and found["failed"] == ["y"]
    assert (found["roofline_mean"], found["roofline_share"]) == (0.625, 0.5)
    nothing = explain.summarize([{"name": "y"}])
    assert nothing["worst_stage"] is None and nothing["roofline_share"] is None


def test_tables_have_every_stage(document, capsys):
    from rich.console import Console

    Console(width=200).print(render(document))
    printed, page = capsys.readouterr().out, markdown(document)
    for text in (printed, page):
        assert "mcmr F(2x4,3x3)" in text and "binds" in text and "roofline" in text
        assert "strided" in text and "allowed" in text
        assert all(name in text for name in STAGES[:3])
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {8} and document["date"] in page
    assert "of peak" in printed and "of peak" in page


@pytest.mark.thorough
@pytest.mark.parametrize("layout, threads", [("NHWC", 2), ("NCHW", 1)])
def test_the_command(tmp_path, layout, threads):
    layers, kept, picture = (tmp_path / name for name in ("mine.json", "why.json", "why.png"))
    layers.write_text(json.dumps(LAYERS))
    words = ["lab", "explain", layers, "--only", "tiny", "--layout", layout, "--threads", threads,
             "--batch", 2, "--algorithm", "direct", "--results", kept,
             "--plot", picture]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert f"winogen {layout}, float32, {threads} thread" in result.output
    assert "most is lost in" in result.output
    document = json.loads(kept.read_text())
    assert set(document) == {"date", "machine", "settings", "layers", "summary"}
    assert document["machine"]["threads"] == threads
    assert "write_gbytes_per_s" in document["machine"]
    (layer,) = document["layers"]
    assert layer["input"][0] == 2 and layer["algorithm"] == "direct"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words, message",
    [
        (["--algorithm", "fft"], "algorithm: got 'fft'; allowed: auto, direct"),
        (["--tolerance", "0"], "tolerance: got 0"),
        (["--dtype", "int4"], "dtype: got 'int4'; allowed: "),
        (
            ["--dtype", "int8", "--algorithm", "mcmr"],
            "algorithm: got 'mcmr'; allowed: ",
        ),
        (["--plot", "why.txt"], "plot: got 'why.txt'"),
        (["--only", "nothing"], "only: got 'nothing'"),
    ],
)
def test_wrong_options_are_refused_before_any_work(words, message):
    result = CliRunner().invoke(app, ["lab", "explain", *words])
    assert result.exit_code == 2 and message in result.output


@pytest.mark.thorough
def test_the_script_puts_tables_into_the_page(document, tmp_path):
    page = tmp_path / "why.md"
    page.write_text("Before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nAfter\n")
    kept = tmp_path / "nchw.json"
    kept.write_text(json.dumps(document))
    script = ROOT / "scripts" / "why_page.py"
    for _ in range(2):  # the marks stay
        words = [sys.executable, script, kept, "--docs", tmp_path]
        subprocess.run(words, check=True)
    text = page.read_text()
    assert text.startswith("Before\n<!-- measured: begin -->\n") and text.endswith(
        "end -->\nAfter\n"
    )
    assert "old" not in text and text.count("| tiny |") == 1
    drawn = json.loads((tmp_path / "images" / "why.json").read_text())
    assert [layer["name"] for layer in drawn["layers"]] == ["tiny"]
    save_plot(drawn, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "images/why.png").read_bytes()


def test_the_page_says_what_the_command_writes(document):
    text = (ROOT / "docs" / "why.md").read_text("utf-8")
    fields = {*document["layers"][0]["stages"][1], *document["layers"][0]["roofline"]}
    for field in fields | set(document) | set(document["summary"]):
        assert re.search(rf'"{field}"', text), field
