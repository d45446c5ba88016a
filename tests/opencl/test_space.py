"""Points of direct convolution: constraints that follow from the scheme, and draws that hold."""

import itertools
from random import Random

import pytest
from opencl import devices, test_transposed

from winogen.conv.problem import Layer
from winogen.errors import InvalidValue, Unsupported
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_bytes, direct_work
from winogen.opencl.scheme import PARAMETERS, DirectPoint
from winogen.opencl.space import DirectSpace

LARGE = DeviceInfo(group=1024, items=(1024, 1024, 64), largest_buffer=1 << 31, memory_bytes=1 << 35)


def problem(weight=(4, 4, 3, 3), size=(6, 5), batch=1, layout="NHWC", **options):
    layer = Layer.of(weight, options.pop("dtype", "float32"), layout=layout, **options)
    channels = layer.channels
    shape = (batch, *size, channels) if layout == "NHWC" else (batch, channels, *size)
    return layer.problem(shape)


VGG7 = problem((128, 128, 3, 3), (112, 112), padding=1)


def test_a_point_of_the_source_costs_the_bytes_that_it_says():
    """Table 4 of the source, layer 7 of VGG: 41 x 41 tiles, of 9 windows each, 61,968,384 bytes."""
    told = DirectPoint(5, 5, 11, 11, filters=4, windows=3, vector=4, chunk=36, local_chunks=8,
                 local_windows=3, pad=1, crop=1)  # fmt: skip
    work = direct_work(VGG7, told, LARGE)
    partial = next(one for one in work.arrays if one.name == "partial")
    assert partial.shape == (1, 1, 41 * 41, 9, 128, 8)
    assert partial.nbytes == 61_968_384
    fewer = DirectPoint(**{**told.as_values(), "extra_height": 2, "extra_width": 2})
    less = direct_work(VGG7, fewer, LARGE)
    assert next(one for one in less.arrays if one.name == "partial").shape[2] == 38 * 38
    assert less.workspace_bytes < work.workspace_bytes


SMALL = {
    "tile_height": (3, 4, 6),
    "tile_width": (3, 5),
    "extra_height": (0, 1),
    "extra_width": (0,),
    "filters": (1, 3, 4),
    "windows": (1, 2, 3),
    "vector": (1, 4),
    "chunk": (2, 9),
    "local_chunks": (1, 2),
    "local_windows": (1, 2),
    "dot": (0,),
    "unroll": (0,),
}


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_what_is_drawn_is_what_satisfies_the_constraints(layout):
    small = problem(padding=(1, 0), layout=layout)
    points = DirectSpace(small, DeviceInfo(), **SMALL)
    every = itertools.product(*(points.ranges[name] for name in PARAMETERS))
    wanted = {point for values in every if points.valid(point := DirectPoint(*values))}
    assert len(wanted) > 300
    assert set(points) == wanted
    assert points.count() == len(wanted)
    random, drawn = Random(1), set()
    for _ in range(40):
        drawn |= {points.draw(random) for _ in range(2 * len(wanted))}
        if len(drawn) == len(wanted):
            break
    assert drawn == wanted
    for order in points.orders[1:]:
        assert points.space(order).count() == len(wanted)


CASES = [
    problem(padding=1),
    problem((6, 3, 3, 3), (9, 9), stride=2, padding=1),
    problem((4, 6, 1, 1), (5, 7), layout="NCHW"),
    problem((8, 2, 3, 3), (8, 9), groups=4, dilation=2, padding=2, padding_mode="circular"),
    problem((64, 3, 7, 7), (32, 32), stride=2, padding=3),
]


def draws(case, count):
    points = DirectSpace(case, DeviceInfo())
    random = Random(3)
    return points, [points.draw(random) for _ in range(count)]


@pytest.mark.parametrize("case", CASES)
def test_no_draw_is_invalid(case):
    points, drawn = draws(case, 400)
    assert all(map(points.valid, drawn))
    assert len(set(drawn)) > 100


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES[:2])
def test_no_draw_of_many_is_invalid(case):
    points, drawn = draws(case, 2500 * devices.DRAWS)
    assert all(map(points.valid, drawn))


@pytest.mark.parametrize(
    "case",
    [
        *CASES,
        problem((8, 5, 3, 3), (7, 6), dtype="float16", padding=1),
        test_transposed.LAYERS["outputs that see nothing"].problem,
    ],
)
def test_predicted_bytes_are_those_of_the_arrays(case):
    points, drawn = draws(case, 25)
    for point in drawn:
        work = direct_work(case, point, DeviceInfo())
        assert {k: v for k, v in points.sizes_of(point).items() if v} == direct_bytes(work)
        for kernel in work.kernels:
            for items, group in zip(kernel.items, kernel.group):
                assert items % group == 0


@pytest.mark.parametrize("case", CASES[:2])
def test_every_constraint_excludes_points_that_cannot_be_built(case):
    """What one constraint forbids, building refuses, in its words."""
    points = DirectSpace(case, DeviceInfo())
    random, told = Random(2), set()
    for _ in range(1000):
        base = points.draw(random).as_values()
        name = random.choice(PARAMETERS)
        point = DirectPoint(**{**base, name: random.choice(points.ranges[name])})
        broken = points.broken(point)
        if broken:
            told |= {*broken}
            with pytest.raises(InvalidValue) as error:
                direct_work(case, point, DeviceInfo())
            assert any(why in str(error.value) for why in broken)
    assert {"windows leave no rest", "pieces are equal", "there is something to crop"} <= told


def test_limits_of_the_device_are_constraints():
    tight = DeviceInfo(group=4, items=(4, 2, 1), largest_buffer=6000, memory_bytes=20_000, lanes=2)
    case = problem(padding=1)
    points = DirectSpace(case, tight)
    random = Random(4)
    for _ in range(200):
        point = points.draw(random)
        assert point.vector <= 2
        work = direct_work(case, point, tight)
        assert max(array.nbytes for array in work.arrays) <= 6000
        assert sum(array.nbytes for array in work.arrays) <= 20_000
        for kernel in work.kernels:
            high, wide, deep = kernel.group
            assert high <= 4 and wide <= 2 and high * wide * deep <= 4
    with pytest.raises(InvalidValue, match="leaves nothing"):
        DirectSpace(case, DeviceInfo(memory_bytes=1000)).draw(random)


def test_a_divisor_is_decided_after_what_it_divides():
    points = DirectSpace(VGG7, LARGE)
    before = points.dependencies
    assert before["windows"] == {"tile_height", "tile_width"}
    assert before["tile_height"] == {"extra_height"}
    assert before["local_windows"] == {"windows", "tile_height", "tile_width"}
    assert before["chunk"] == {"pad", "vector"}
    assert before["vector"] == {"pad"}
    assert len(points.orders) > 3
    for order in points.orders:
        for name in PARAMETERS:
            assert all(order.index(other) < order.index(name) for other in before[name])


def test_names_and_layers_that_do_not_apply_are_refused():
    with pytest.raises(InvalidValue, match="range: got 'tile'; allowed: tile_height, "):
        DirectSpace(CASES[0], DeviceInfo(), tile=(3,))
    with pytest.raises(Unsupported, match="dtype: got float64; allowed on devices"):
        DirectSpace(problem(dtype="float64"), DeviceInfo())
    with pytest.raises(Unsupported, match="layers of 1 or 2 axes"):
        DirectSpace(
            Layer.of((2, 2, 3, 3, 3), "float32", layout="NCDHW").problem((1, 2, 5, 5, 5)),
            DeviceInfo(),
        )
