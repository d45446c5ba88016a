"""The demonstration: its filters, its reference, its measurements and its pictures."""

import io

import matplotlib.image
import numpy as np
import pytest
from typer.testing import CliRunner

from winogen import demo
from winogen.demo import pictures, workload
from winogen.demo.filters import weights
from winogen.demo.reference import convolve
from winogen.errors import WinogenError


def test_every_bank_is_of_its_size_and_brightness():
    for size, bank in demo.banks().items():
        for item in bank:
            assert item.taps.shape == (size, size)
            kept = 1 if item.view == "picture" else 0
            assert item.taps.sum() == pytest.approx(kept, abs=1e-12), item.name
        assert weights(bank).shape == (len(bank), 1, size, size)


def test_the_reference_is_correlation_tap_by_tap(monkeypatch):
    monkeypatch.setattr("winogen.demo.reference._BLOCK_BYTES", 4000)  # several blocks
    draw = np.random.default_rng(0)
    x, w = draw.standard_normal((2, 3, 9, 7)), draw.standard_normal((4, 3, 3, 5))
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)))
    expected = np.zeros((2, 4, 11, 7))
    for n, m, i, j in np.ndindex(expected.shape):
        expected[n, m, i, j] = (padded[n, :, i : i + 3, j : j + 5] * w[m]).sum()
    np.testing.assert_allclose(convolve(x, w, 2), expected, atol=1e-12)
    edges = convolve(x, np.ones((1, 3, 1, 1)), 1, "replicate")
    assert edges[0, 0, 0, 0] == pytest.approx(x[0, :, 0, 0].sum())


def test_the_layers_are_one_of_vgg_and_then_three_banks():
    photo = np.zeros((3, 20, 30), np.float32)
    vgg, *banks = demo.layers(photo)
    assert [layer.weight.shape for layer in banks] == [(6, 1, k, k) for k in (3, 5, 7)]
    assert vgg.x.shape == (1, 256, 56, 56) and vgg.weight.shape == (256, 256, 3, 3)
    assert vgg.flops == 2 * 56 * 56 * 256 * 256 * 9


def test_opposite_points_are_written_as_one():
    points = ("0", "1/2", "-1/2", "-3", "3", "5", "inf")
    assert workload.points_text(points) == "0, ±1/2, ±3, 5, inf"
    assert workload._axes_text((None, points)) == "0, ±1/2, ±3, 5, inf"
    assert workload._axes_text((points, points)) == "0, ±1/2, ±3, 5, inf"
    assert workload._axes_text((("0", "inf"), points)).splitlines() == [
        "0, inf (height)",
        "0, ±1/2, ±3, 5, inf (width)",
    ]


@pytest.fixture
def one_bank(monkeypatch):
    """Only the 5x5 bank, timed as briefly as possible."""
    real = demo.layers
    monkeypatch.setattr(demo, "layers", lambda photo: real(photo)[2:3])
    monkeypatch.setattr(workload, "_SECONDS", 0)


@pytest.mark.thorough
def test_the_command_filters_the_photograph_by_every_algorithm(one_bank, tmp_path):
    from winogen.cli.app import app

    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path), "--threads", "2"])
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    rows = {row[0]: row for row in rows if row and row[0] in workload.ALGORITHMS}
    assert tuple(rows) == workload.ALGORITHMS
    for algorithm, row in rows.items():
        assert 0 < float(row[-1]) < float(row[-2]) < 2e-5, algorithm  # mean and max error
    assert "colour by colour, 6 filters of 5x5; 2 threads" in result.stdout
    assert result.stdout.index("mcmr transforms") < result.stdout.index("direct  ")
    for name in ("filters.png", "algorithms.png"):
        height, width = matplotlib.image.imread(tmp_path / name).shape[:2]
        assert height > 200 and width > 500


def test_a_narrow_terminal_gets_every_number_whole():
    from rich.console import Console

    from winogen.cli.demo import _add, _table

    row = workload.TableRow(
        "winograd2d", 16, "F(2x2, 7x7)", "0, ±1, ±1/2, ±2, inf", 1849688064, 10065664,
        0.22825, 1231.3, 3.9e-06, 2.2e-08,
    )  # fmt: skip
    for narrow, width, texts in (
        (True, 80, ("1849.7 M", "9,830 KiB", "F(2x2, 7x7): points 0, ±1, ±1/2, ±2, inf")),
        (False, 140, ("1,849,688,064", "10,065,664", "0, ±1, ±1/2, ±2, inf")),
    ):
        table = _table(narrow)
        _add(table, row, narrow)
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(table)
        shown = console.export_text()
        for text in (*texts, "228.25 ms", "1231.3", "3.9e-06", "2.2e-08", "winograd2d"):
            assert text in shown


def test_views_are_pictures():
    output = np.random.default_rng(0).standard_normal((3, 6, 5)).astype(np.float32)
    for kind in ("picture", "relief", "strength"):
        picture = pictures.view(output, kind)
        assert picture.shape == (6, 5, 3)
        assert 0 <= picture.min() and picture.max() <= 1
    assert pictures.view(np.zeros((3, 2, 2)), "strength").max() == 0


def test_a_missing_photograph_is_a_clear_error(monkeypatch):
    def refuse(name):
        raise FileNotFoundError(2, "No such file or directory", name)

    monkeypatch.setattr("matplotlib.cbook.get_sample_data", refuse)
    with pytest.raises(WinogenError, match="sample photograph is missing"):
        demo.photograph()
