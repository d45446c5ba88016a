"""`winogen report` as it is typed."""

import json
import os
import re

import numpy as np
import pytest

from winogen.reports import catalog, ways

LAYER = ("--input", "1,4,8,9", "--weight", "3,4,3,3", "--padding", "1")
NAME = "1,4,8,9:3,4,3,3"


@pytest.fixture(autouse=True)
def few_tiles(monkeypatch):
    monkeypatch.setattr(ways, "_MOST_POINTS", 4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the command runs: good and bad files."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 4, 8, 9), np.float32)
    np.save("x.npy", x)
    np.save("w.npy", rng.standard_normal((3, 4, 3, 3), np.float32))
    np.save("x64.npy", x.astype(np.float64))
    np.savez("both.npz", x=x)
    (tmp_path / "text.npy").write_text("1 2 3")
    (tmp_path / "empty.npy").write_bytes(b"")
    layer = {"input": [1, 4, 8, 9], "weight": [3, 4, 3, 3], "padding": 1}
    (tmp_path / "layer.json").write_text(json.dumps([layer]))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    os.mkfifo("fifo")
    with open("vast.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (10**14,)}
        np.lib.format.write_array_header_1_0(file, header)
    (tmp_path / "two.json").write_text(json.dumps([layer, layer]))
    return tmp_path


def test_help_has_an_example(winogen):
    result = winogen("report", "--help")
    assert result.exit_code == 0 and "Example: winogen report -o" in result.output


@pytest.mark.thorough
def test_of_the_catalog(winogen, folder, monkeypatch):
    monkeypatch.setattr(catalog, "USUAL_POINTS", 4)  # finding programs takes long
    result = winogen("report", "-o", "out", "--layers", "none", "--trials", 20)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == "out/index.html"
    document = json.loads((folder / "out" / "report.json").read_text("utf-8"))
    assert document["settings"] == {"trials": 20, "seed": 0} and len(document["entries"]) > 20
    assert not (folder / "out" / "layers.csv").exists()
    assert (folder / "out" / "index.html").read_text("utf-8").count("<img ") == 5


@pytest.mark.thorough
def test_of_a_layer_by_shapes_and_by_file(winogen, folder):
    files = ("--weight", "w.npy", "--input", "x.npy")
    for number, layer in enumerate((LAYER[4:], ("layer.json",))):
        result = winogen("report", *layer, *files, "--tolerance", "1e-6", "-o", f"out{number}")
        assert result.exit_code == 0, result.output
    first, second = (
        json.loads((folder / f"out{k}" / "report.json").read_text("utf-8")) for k in (0, 1)
    )
    assert first["rows"] == second["rows"] and first["tolerance"] == 1e-6
    assert (first["layer"]["name"], second["layer"]["name"]) == (NAME, "layer")
    assert first["data"]["weights"]["source"] == "w.npy"
    titles = [
        re.search("<h1>(.*?)</h1>", (folder / f"out{k}" / "index.html").read_text("utf-8"))[1]
        for k in (0, 1)
    ]
    assert titles == [f"How accurate each algorithm is on {name}" for name in (NAME, "layer")]


@pytest.mark.thorough
def test_data_are_drawn_where_none_are_given(winogen, folder):
    result = winogen(
        "report",
        "--input",
        "1,4,9,9",
        "--weight",
        "4,2,3,3",
        "--stride",
        "2,1",
        "--groups",
        2,
        "-o",
        "o",
    )
    assert result.exit_code == 0, result.output
    document = json.loads((folder / "o" / "report.json").read_text("utf-8"))
    assert document["layer"]["stride"] == [2, 1] and document["layer"]["groups"] == 2
    assert document["data"]["input"]["source"] == "random, normal"


@pytest.mark.parametrize(
    "words, message",
    [
        (("--layers", "vgg17"), "layers: got 'vgg17'"),
        (("--weight", "w.npy"), "input: got none; allowed: --input and --weight, or a JSON file"),
        (("--thorough",), "thorough: got 'True'; allowed: only together with --input and"),
        ((*LAYER, "--trials", 9), "trials: got '9'; allowed: only in the report on the catalog"),
        (
            ("none.json",),
            "layer: got 'none.json' (No such file or directory); allowed: a JSON file",
        ),
        ((*LAYER[:2], "--weight", "3,4,3"), "weight: got '3,4,3'; allowed: 4 integers"),
        (("layer.json", "--weight", "3,4,3,3"), "allowed: an array, or nothing: layer"),
        ((*LAYER[:2], "--weight", "3,5,3,3"), "got 4 channels"),
        (("two.json",), "layer: got two.json; allowed: a file with one layer"),
        (("x.npy",), "layer: got x.npy, which is not JSON"),
        (("deep.json",), "layer: got deep.json, which is nested too deeply"),
        (
            ("layer.json", "--stride", "2"),
            "stride: got '2'; allowed: nothing, layer.json",
        ),
        ((*LAYER, "--stride", "a"), "stride: got 'a'; allowed: one or two integers"),
        ((*LAYER, "--input", "x64.npy"), "input: got dtype float64; allowed: float32"),
        (
            ("layer.json", "--input", "w.npy"),
            "input: got shape (3, 4, 3, 3); allowed: (1, 4",
        ),
        ((*LAYER, "--input", "none.npy"), "input: got 'none.npy' (No such file or directory)"),
        ((*LAYER, "--input", "text.npy"), "input: got 'text.npy' (not .npy)"),
        ((*LAYER, "--weight", "empty.npy"), "weight: got 'empty.npy' (not .npy)"),
        ((*LAYER, "--weight", "both.npz"), "weight: got 'both.npz', which is .npz"),
        ((*LAYER, "--weight", "fifo"), "weight: got 'fifo', which is not a regular file"),
        ((*LAYER, "--input", "vast.npy"), "input: got 'vast.npy' ("),
        ((*LAYER, "--tolerance", "-1"), "tolerance: got -1.0; allowed: a positive number"),
    ],
)
def test_mistakes(refused, folder, words, message):
    before = sorted(path.name for path in folder.iterdir())
    assert message in refused("report", "-o", "out", *words)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_place_where_nothing_can_be_written(refused, folder):
    assert "output: got 'x.npy'" in refused("report", *LAYER, "-o", "x.npy")


@pytest.mark.thorough
def test_of_every_number_format(winogen, folder, monkeypatch):
    monkeypatch.setattr(ways, "TRIED_FILTER_TYPES", ("float16",))
    monkeypatch.setattr(ways, "PRODUCT_TYPES", ())
    monkeypatch.setattr(ways, "_NARROW_TILES", ())
    result = winogen("report", *LAYER, "--numbers", "-o", "out")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[-1] == "out/index.html"
    document = json.loads((folder / "out" / "report.json").read_text("utf-8"))
    (row,) = (row for row in document["rows"] if row["label"] == "direct, float16 filters")
    (line,) = (line for line in lines if line.startswith(" direct, float16 filters"))
    assert f"{row['relative_max']:.1e}" in line and f"{row['packed_weight_bytes']:,}" in line
    assert "measured ms" not in result.stdout


def test_of_a_net(winogen, folder, monkeypatch):
    pytest.importorskip("torch")
    from winogen_lab.nets import quality

    few = [numbers for numbers in quality.NUMBERS if numbers.label == "flyte16 filters, cut"]
    whole = quality.measure_quality
    monkeypatch.setattr(
        quality, "measure_quality", lambda name, **options: whole(name, few, (2,), **options)
    )
    result = winogen("report", "tiny", "-o", "out")
    assert result.exit_code == 0, result.output
    document = json.loads((folder / "out" / "report.json").read_text("utf-8"))
    psnr = document["rows"][0]["psnr"]["direct"]
    assert f"{psnr}*" in result.stdout and "out/index.html" in result.stdout
    assert (folder / "out" / "quality.csv").exists()


def test_options_that_do_not_go_with_a_net(winogen, folder):
    for options in (LAYER[:4], ("--trials", 5), ("--numbers",)):
        result = winogen("report", "tiny", "-o", "out", *options)
        assert result.exit_code == 2 and "allowed: only without a net" in result.stderr
    for name in ("vgg99", "zoo", "vgg16"):
        result = winogen("report", name, "-o", "out")
        assert result.exit_code == 2
        assert f"net: got '{name}'; allowed: a trained one, " in result.stderr
    assert not (folder / "out").exists()
