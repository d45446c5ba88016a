"""Layers by different algebra: the same results, counts that are known, and tables."""

import math
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import winogen
from winogen.cli.app import app
from winogen.errors import InvalidValue
from winogen.kernels.spec import KernelSpec
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import algebras, reference
from winogen_lab.bench.algebras import Row, Way, compare, joined_and_nested, nested, of_layer
from winogen_lab.bench.profile import ProfiledCall


def layer(kernel=3, size=12, channels=16):
    return BenchLayer.from_dict(
        {"name": "tiny", "input": [1, channels, size, size],
         "weight": [channels, channels, kernel, kernel], "padding": kernel // 2}
    )  # fmt: skip


@pytest.fixture(autouse=True)
def measured_here(monkeypatch):
    """The command would start itself anew for numpy's threads."""
    monkeypatch.setenv("WINOGEN_BENCH_CHILD", "1")


def test_joined_and_nested_differ_in_their_products_only():
    tiny = layer()
    joined, apart = compare(tiny, joined_and_nested(6), rounds=3)
    tiles = (12 // 6) ** 2 / 12**2
    assert (joined.products, apart.products) == (78 * tiles, 81 * tiles)
    assert joined.filter_bytes * 81 == apart.filter_bytes * 78
    assert 0 < max(joined.error, apart.error) < 1e-5
    assert all(
        len(row.seconds) == 3 and min(map(min, row.stages[:3])) > 0 for row in (joined, apart)
    )


def test_the_nested_call_computes_the_layer():
    tiny = layer()
    x, weight = tiny.data()
    (way, _) = joined_and_nested(6)
    prepared = winogen.Conv2d(weight, padding=1, threads=1, **way.options)._prepare(x.shape)
    work = nested(prepared.calls[0].work)
    assert [t.products for t in work.transforms] == [9, 9]
    assert not any(t.ring for t in work.transforms)
    y = np.full(prepared.output_shape, np.nan, np.float32)
    ProfiledCall(KernelSpec.of(work), work, weight)(x, y)
    exact = reference.exact(tiny, x, weight)
    assert reference.relative_error(y, exact) < 1e-5
    plain = winogen.Conv2d(weight, padding=1, algorithm="mcmr", tile=4, threads=1)
    with pytest.raises(InvalidValue, match="without joined products"):
        nested(plain._prepare(x.shape).calls[0].work)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_counts_of_points_and_of_whole_transforms(layout):
    ways = [Way("F(4,3)", {"algorithm": "mcmr", "tile": 4}), Way("FFT", {"algorithm": "fft"})]
    points, whole = compare(layer(), ways, 3, layout)
    assert points.products == 36 / 16 and points.instructions > points.products
    # 9 tiles, U of 36 x 16 x 16 numbers once, and of each tile V and the sums.
    assert points.filter_bytes == 4 * 36 * 16 * 16 and points.intensity > 1
    # One tile of 16 x 16: complex products of 16 x 9 frequencies by four real ones.
    frequencies = 16 * 9
    assert whole.products * 12**2 == 4 * frequencies
    assert whole.filter_bytes == 8 * frequencies * 16 * 16
    moved = whole.filter_bytes + 8 * frequencies * (16 + 16)
    assert whole.intensity == pytest.approx(2 * 4 * frequencies * 16 * 16 / moved)
    assert math.isnan(whole.stages[1][0])
    assert max(points.error, whole.error) < 1e-5


def test_ratios_compare_within_a_round():
    def row(*seconds):
        return Row("", 1.0, 1.0, 1.0, 1, 0.0, seconds, (seconds,))

    assert row(1.0, 2.0, 4.0).ratio(row(2.0, 4.0, 8.0)) == (2.0, 2.0, 2.0)
    assert row(1.0, 2.0, 4.0).ratio(row(4.0, 2.0, 1.0), 0)[0] == 1.0


def test_ways_of_layers():
    names = [way.name for way in of_layer(layer(5))]
    assert names[0] == "direct" and names[-1] == "regular FFT" and len(names) >= 6
    assert "F(4,5) Gauss FFT" in names and "F(12,5) Gauss FFT" in names
    for other in (layer(9), layer(1)):
        with pytest.raises(InvalidValue, match="allowed: layers of 3x3, 5x5 or 7x7"):
            of_layer(other)
    with pytest.raises(InvalidValue, match=r"tiles: got 3; allowed: .*6"):
        joined_and_nested(3)


def test_the_commands_print_tables(monkeypatch, tmp_path):
    few = [Way("direct", {"algorithm": "direct"}), Way("FFT", {"algorithm": "fft"})]
    monkeypatch.setattr(algebras, "of_layer", lambda layer: few)
    result = CliRunner().invoke(
        app, ["lab", "joined", "--size", "12", "--channels", "16", "--tiles", "6", "--rounds", "3"]
    )
    assert result.exit_code == 0, result.output
    assert re.search(r"F\(6,3\) joined +2\.167", result.output)
    assert re.search(r"nested / joined +1\.038", result.output)
    file = tmp_path / "layers.json"
    file.write_text('[{"name": "tiny", "input": [1, 8, 9, 9], "weight": [8, 8, 3, 3]}]')
    words = ["lab", "fourier", str(file), "--only", "tin", "--rounds", "3"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "fastest: " in result.output and re.search(r"^direct +9\.00", result.output, re.M)
    result = CliRunner().invoke(app, [*words[:4], "x9"])
    assert result.exit_code == 2 and "only: got 'x9'" in result.output
