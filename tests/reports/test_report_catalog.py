"""The report on the catalog, with few tiles: its figures, its page, and that it repeats."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from winogen import charts
from winogen import reports as report
from winogen.conv import Layer
from winogen.errors import InvalidValue
from winogen.reports import (
    Case,
    catalog_page,
    catalog_report,
    layers,
    write_catalog_report,
)
from winogen.reports.catalog import shares

# Some twenty thousand tiles: one process has all these tests.
pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("report_catalog")]

NAMES = ("f2_3", "f3_3", "f4_3", "f4_3_classic", "f4_3_gaussian", "f2_5")
OPTIONS = {"names": NAMES, "trials": 300, "channels": (1, 16)}


def tiny_case(name: str = "tiny <layer> & Co", stride: int = 1) -> Case:
    layer = Layer.of((3, 4, 3, 3), "float32", padding=1, stride=stride)
    rng = np.random.default_rng(1)
    shapes = (1, 4, 8, 9), (3, 4, 3, 3)
    x, w = (rng.standard_normal(shape, np.float32) for shape in shapes)
    return Case(name, layer.problem(x.shape), lambda: (x, w))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "_torch", lambda: None)
        return write_catalog_report(
            tmp_path_factory.mktemp("report"), [tiny_case()], **OPTIONS
        ).parent


@pytest.fixture(scope="module")
def document(folder) -> dict:
    return json.loads((folder / "report.json").read_text("utf-8"))


def test_published_figures_are_met(document):
    for dims in ("1d", "2d"):
        found = document["direct"][dims]
        assert found["mean"] == pytest.approx(found["published"], rel=0.05)
    sets = document["published"]["sets"]
    assert [known["n"] for known in sets] == list(range(4, 19))
    assert all(len(known["points"]) == known["n"] for known in sets)
    assert all(0.8 < known["ratio"] < 1.25 for known in sets)


def test_entries(document):
    entries = {entry["name"]: entry for entry in document["entries"]}
    assert list(entries) == ["f2_3", "f3_3", "f4_3", "f4_3_classic", "f4_3_gaussian", "f2_5"]
    good, classic = entries["f4_3"], entries["f4_3_classic"]
    assert good["huffman"]["mean"] < 0.85 * classic["huffman"]["mean"]
    assert good["mixed"]["mean"] < good["huffman"]["mean"]
    assert good["huffman"]["mean"] / 2 < good["estimate"] < 2 * good["huffman"]["mean"]
    assert good["published"] == 3.29e-7
    assert good["ratio_to_published"] == pytest.approx(good["huffman"]["mean"] / 3.29e-7, rel=1e-4)
    # More multiplications, or other taps, have no published figure to be compared with.
    assert entries["f4_3_gaussian"]["published"] is entries["f2_5"]["published"] is None
    assert entries["f4_3_gaussian"]["multiplications_per_output"] == pytest.approx(49 / 16, 1e-5)


def test_what_is_worth_having(document):
    fronts = {entry["name"]: entry["pareto"] for entry in document["entries"]}
    assert fronts["f4_3"] == {"instructions": True, "multiplications": True}
    assert fronts["f4_3_classic"] == {"instructions": False, "multiplications": False}
    # A modulus of degree 2: one multiplication more, an error that nothing as cheap has.
    assert fronts["f4_3_gaussian"]["multiplications"]
    assert fronts["f2_5"]["multiplications"]  # other taps compete among themselves


def test_channels(document):
    part = document["channels"]
    found = {row["name"]: dict(zip(part["channels"], row["relative_l2"])) for row in part["series"]}
    assert list(found) == ["direct", "f2_3", "f3_3", "f4_3", "f4_3_gaussian"]
    assert found["direct"][1] < found["f2_3"][1] < found["f4_3"][1]
    assert found["f2_3"][16] < found["direct"][16]  # many channels: shorter chains of additions


def test_shares_of_errors_add_up(document):
    part = document["histogram"]
    assert all(low < high for low, high in zip(part["edges"], part["edges"][1:]))
    for row in part["series"]:
        assert len(row["shares"]) == len(part["edges"]) - 1
        assert sum(row["shares"]) + row["below"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("values", [[0.0, 0.0], [1e-7], [1e-20, 1e-6, 1e-6, 0.0]])
def test_shares_of_few_errors(values):
    (row,) = shares([("a", np.array(values))], "")["series"]
    assert sum(row["shares"]) + row["below"] == pytest.approx(1)


def test_layers(document):
    part = document["layers"]
    (row,) = part["rows"]
    assert row["algorithm"] == "direct" and row["errors"]["winogen"] == row["errors"]["direct"]
    assert 0 < row["errors"]["direct"]["relative_max"] < 1e-6
    assert part["torch"] is None and part["compared"] == 0


def test_torch_beside_it():
    pytest.importorskip("torch")
    found = layers.measure_layers([tiny_case()], lambda what: None)
    error = found["rows"][0]["errors"][layers.TORCH]["relative_max"]
    assert found["compared"] == 1 and 0 < error < 1e-6 and found["torch"]


def test_the_same_again_to_the_byte(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "_torch", lambda: None)
    seen = []
    again = write_catalog_report(
        tmp_path, [tiny_case()], progress=lambda *step: seen.append(step), **OPTIONS
    ).parent
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    assert names == [
        *("catalog.csv", "channels.csv", "histogram.csv", "index.html", "layers.csv"),
        *("published.csv", "report.json"),
    ]
    for name in names:
        assert (folder / name).read_bytes() == (again / name).read_bytes()
    total = seen[0][1]
    assert [(done, of) for done, of, _ in seen] == [(k + 1, total) for k in range(total)]


def test_another_seed_is_another_sample(document):
    other = catalog_report(names=["f4_3"], trials=300, channels=(1,), seed=7)
    ours = next(entry for entry in document["entries"] if entry["name"] == "f4_3")
    theirs = other["entries"][0]["huffman"]["mean"]
    assert theirs != ours["huffman"]["mean"]
    assert theirs == pytest.approx(ours["huffman"]["mean"], rel=0.3)
    assert "compiler" not in other["made_by"]  # no layers: nothing was compiled


def test_tables_have_what_the_document_has(folder, document):
    with open(folder / "catalog.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [entry["name"] for entry in document["entries"]]
    for row, entry in zip(rows, document["entries"]):
        assert float(row["huffman.mean"]) == entry["huffman"]["mean"]
        assert row["points"].split() == entry["points"]
    with open(folder / "channels.csv", newline="", encoding="utf-8") as file:
        first = next(csv.DictReader(file))
    with open(folder / "histogram.csv", newline="", encoding="utf-8") as file:
        bins = list(csv.DictReader(file))
    edges = document["histogram"]["edges"]
    assert [float(row["from"]) for row in bins] == [0.0, *edges[:-1]]
    assert [float(row["to"]) for row in bins] == edges
    assert sum(float(row["f2_3"]) for row in bins) == pytest.approx(1, abs=1e-4)
    assert first["channels"] == "1"
    assert float(first["f4_3"]) == document["channels"]["series"][3]["relative_l2"][0]


def test_the_page(folder, check_page):
    page = check_page(folder / "index.html")
    assert page.names.count("img") == 6 and page.names.count("table") == 4
    text = (folder / "index.html").read_text("utf-8")
    assert "tiny &lt;layer&gt; &amp; Co" in text  # names are text, whatever is in them
    assert "not installed here" in text and len(text) < 2_000_000


def test_moduli_are_hollow_in_the_picture(document):
    _, axes = charts.new_figure()
    catalog_page.error_over_n(axes, document)
    hollow = [
        list(line.get_xdata())
        for line in axes.lines
        if line.get_linestyle() == "None" and line.get_markerfacecolor() == charts.PAPER
    ]
    assert hollow == [[6]]  # F(4,3) gaussian


@pytest.mark.parametrize(
    "options", [{"names": ["f9_9"]}, {"trials": 0}, {"trials": 2.5}, {"seed": -1}]
)
def test_mistakes_leave_nothing_behind(tmp_path, options):
    (name,) = options
    with pytest.raises(InvalidValue, match=f"{name}: got .*; allowed: "):
        write_catalog_report(tmp_path / "r", **options)
    assert not list(tmp_path.iterdir())


def test_the_public_names():
    assert set(report.__all__) <= set(dir(report)) | set(report._PUBLIC)
    with pytest.raises(AttributeError):
        getattr(report, "nothing")  # noqa: B009
