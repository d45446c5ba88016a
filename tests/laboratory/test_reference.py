"""The float64 reference, and the check that would catch it being wrong."""

import numpy as np
import pytest

from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import reference

LAYERS = [
    {"name": "plain", "input": [1, 3, 7, 8], "weight": [4, 3, 3, 3], "padding": 1},
    {
        "name": "strided",
        "input": [2, 4, 9, 9],
        "weight": [6, 2, 3, 2],
        "stride": [2, 1],
        "groups": 2,
    },
    {
        "name": "dilated",
        "input": [1, 2, 11, 10],
        "weight": [3, 2, 3, 3],
        "padding": [3, 0],
        "dilation": [2, 3],
    },
]

TRANSPOSED = [
    {"name": "up", "input": [2, 4, 3, 4], "weight": [4, 3, 3, 4], "stride": [2, 3], "padding": 1,
     "groups": 2, "dilation": [2, 1], "output_padding": [1, 2], "transposed": True},
    {"name": "signal", "input": [1, 2, 5], "weight": [2, 3, 4], "stride": 2, "transposed": True},
]  # fmt: skip


@pytest.mark.parametrize("fields", TRANSPOSED, ids=lambda fields: fields["name"])
def test_reference_of_a_transposed_layer_is_the_definition(fields):
    """Every input adds a filter times itself to the outputs; see also its own `check`."""
    layer = BenchLayer.from_dict(fields)
    x, weight = layer.data()
    y = reference.exact(layer, x, weight)
    assert y.shape == layer.output
    sums = np.zeros(y.shape)
    channels, filters = layer.input[1] // layer.groups, layer.weight[1]
    for n, c, m, *at in np.ndindex(layer.input[0], layer.input[1], filters, *layer.input[2:]):
        for taps in np.ndindex(*layer.weight[2:]):
            steps = zip(at, taps, layer.stride, layer.dilation, layer.padding)
            place = tuple(i * s + k * d - p for i, k, s, d, p in steps)
            if all(0 <= one < size for one, size in zip(place, y.shape[2:])):
                value = float(x[(n, c, *at)]) * float(weight[(c, m, *taps)])
                sums[(n, c // channels * filters + m, *place)] += value
    assert np.abs(y - sums).max() < 1e-12


@pytest.mark.parametrize("fields", LAYERS, ids=lambda fields: fields["name"])
def test_reference_is_the_definition(fields):
    layer = BenchLayer.from_dict(fields)
    x, weight = layer.data()
    y = reference.exact(layer, x, weight)
    assert y.dtype == np.float64 and y.shape == layer.output
    for place in np.ndindex(*y.shape):
        assert y[place] == pytest.approx(_by_loops(layer, x, weight, place), abs=1e-12)


def _by_loops(layer, x, weight, place):
    n, m, row, col = place
    total, per_filter = 0.0, layer.weight[0] // layer.groups
    for c in range(layer.weight[1]):
        for i in range(layer.weight[2]):
            for j in range(layer.weight[3]):
                h = row * layer.stride[0] + i * layer.dilation[0] - layer.padding[0]
                w = col * layer.stride[1] + j * layer.dilation[1] - layer.padding[1]
                if 0 <= h < layer.input[2] and 0 <= w < layer.input[3]:
                    channel = m // per_filter * layer.weight[1] + c
                    total += float(weight[m, c, i, j]) * float(x[n, channel, h, w])
    return total


def test_a_wrong_reference_is_noticed(tiny):
    x, weight = tiny.data()
    y = reference.exact(tiny, x, weight)
    corner = y.copy()
    corner[0, -1, 0, -1] += 1e-6
    for wrong in (corner, y * (1 + 1e-9), np.roll(y, 1, axis=-1), y * np.nan):
        with pytest.raises(reference.WrongReference, match="tiny"):
            reference.check(tiny, x, weight, wrong)


def test_data_is_the_same_in_every_run_and_normal(tiny):
    x, weight = tiny.data()
    again, _ = tiny.data()
    assert np.array_equal(x, again) and x.dtype == weight.dtype == np.float32
    assert abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.1


def test_relative_error():
    y64 = np.array([1.0, -4.0, 2.0])
    assert reference.relative_error(np.float32([1.0, -4.0, 2.5]), y64) == 0.125
