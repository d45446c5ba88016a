"""Direct convolution on a device: exact on integers at points drawn from the whole space."""

from random import Random

import numpy as np
import pytest
from conv import reference
from opencl import devices

from winogen.codegen.devices.render import render
from winogen.codegen.devices.statements import ForLoop
from winogen.conv.problem import Layer, Problem, Seams
from winogen.errors import InvalidValue
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_work
from winogen.opencl.scheme import DirectPoint
from winogen.opencl.space import DirectSpace

GENERATOR = np.random.default_rng(11)
ROOMY = DeviceInfo(group=1024, items=(1024, 1024, 64), largest_buffer=1 << 30, memory_bytes=1 << 32)


def integers(*shape):
    return GENERATOR.integers(-8, 9, shape)


def arrays_of(problem: Problem, bias: bool) -> dict[str, np.ndarray]:
    """Small integers for all arrays that a call brings."""
    layer, epilogue = problem.layer, problem.epilogue
    given = {"input": integers(*problem.input_shape), "weights": integers(*layer.weight_shape)}
    if bias:
        given["bias"] = integers(layer.filters)
    if epilogue.add:
        given["add"] = integers(*problem.output_shape)
    if epilogue.add_after:
        given["add_after"] = integers(*problem.output_shape)
    return given


def expected(problem: Problem, given: dict[str, np.ndarray]) -> np.ndarray:
    layer = problem.layer
    batched = given["input"].reshape(problem.batch, *given["input"].shape[-3:])
    ends = [(axis.before, axis.after) for axis in layer.axes]
    others = {name: given[name] for name in ("bias", "add", "add_after") if name in given}
    epilogue = layer.epilogue
    if epilogue.activation is not None:
        others["activation"] = (epilogue.activation, *epilogue.parameters)
    return reference.convolve(
        batched, given["weights"], stride=layer.stride, padding=ends, dilation=layer.dilation,
        groups=layer.groups, padding_mode=layer.padding_mode, layout=layer.layout,
        **others,
    )  # fmt: skip


def limits() -> DeviceInfo:
    return DeviceInfo.of(devices.context().devices[0])


def drawn(case: Problem, seed: int, count: int) -> list[DirectPoint]:
    points, random = DirectSpace(case, limits()), Random(seed)
    return [points.draw(random) for _ in range(count)]


# Compiling takes most of the time of a test, and a third of that without optimisations.
FAST = ("-cl-opt-disable",)


def check(problem: Problem, point: DirectPoint, bias: bool = False, options=FAST) -> None:
    """All that is not given is NaN before: results, workspaces and packed weights."""
    work = direct_work(problem, point, limits(), bias=bias)
    given = arrays_of(problem, bias)
    results = devices.run(render(work, "opencl"), work, given, options)
    wanted = expected(problem, given).reshape(problem.output_shape)
    np.testing.assert_array_equal(results["output"], wanted, err_msg=str(point))


def problem(weight, size, batch=1, layout="NHWC", **options):
    layer = Layer.of(weight, "float32", layout=layout, **options)
    channels = layer.channels
    shape = (batch, channels, *size) if layout == "NCHW" else (batch, *size, channels)
    return layer.problem(shape)


SHAPES = {
    "same": problem((8, 8, 3, 3), (9, 7), batch=2, padding=1),
    "planes": problem((6, 4, 3, 3), (7, 8), layout="NCHW", padding=((0, 2), (1, 1))),
    "stride 2, ragged channels": problem((8, 5, 3, 3), (11, 10), stride=2, padding=1),
    "a rest behind the last window": problem((4, 3, 5, 5), (13, 12), stride=(3, 2), layout="NCHW"),
    "groups, dilation, a mirror": problem(
        (8, 4, 3, 2), (9, 10), groups=2, dilation=(2, 1), padding=2, padding_mode="reflect"
    ),
    "depthwise, circular": problem(
        (6, 1, 3, 3), (8, 8), groups=6, padding=1, padding_mode="circular", layout="NCHW"
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_points_are_exact(name):
    case = SHAPES[name]
    for number, point in enumerate(drawn(case, 1, 6)):
        check(case, point, options=FAST if number else ())


@pytest.mark.thorough
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.draws
def test_many_points_are_exact(name):
    case = SHAPES[name]
    for point in drawn(case, 100, 5 * devices.DRAWS):
        check(case, point, options=())


OPTIONS = {
    "bias": (dict(), True),
    "relu": (dict(activation="relu"), True),
    "clip, planes": (dict(activation=("clip", -20, 30), layout="NCHW"), False),
    "leaky, stride": (dict(activation=("leaky_relu", 0.5), stride=2), True),
    "nearest pixels": (dict(padding_mode="replicate", padding=2), False),
}
ALONE = DirectPoint(3, 3, filters=2, vector=1, chunk=36)
IN_FOUR_KERNELS = {"pad": (1,), "crop": (1,), "local_chunks": (2, 3, 4)}


@pytest.mark.parametrize("kernels", [1, 4])
@pytest.mark.parametrize("name", OPTIONS)
def test_epilogues_are_done_by_whatever_kernel_is_the_last(name, kernels):
    options, bias = OPTIONS[name]
    case = problem((4, 4, 3, 3), (7, 6), batch=2, **{"padding": 1, **options})
    if (kernels == 4) == bias:
        case = case.sewn(Seams(4, 4, add=4, add_after=4))
    point = ALONE
    if kernels == 4:
        point = DirectSpace(case, limits(), **IN_FOUR_KERNELS).draw(Random(5))
    assert len(direct_work(case, point, limits()).kernels) == kernels
    check(case, point, bias)


def kernels(case: Problem, **parameters: int) -> list[str]:
    work = direct_work(case, DirectPoint(**parameters), ROOMY)
    return [one.name for one in work.kernels]


def test_kernels_vanish_where_nothing_is_left_for_them():
    case = problem((4, 4, 3, 3), (8, 8), padding=1)
    tile = dict(tile_height=4, tile_width=4)
    odd = dict(tile_height=5, tile_width=5, extra_height=1, extra_width=1)
    assert kernels(case, **tile, chunk=36) == ["sum_windows"]
    assert kernels(case, **tile, chunk=9) == ["sum_windows", "add_chunks"]
    assert kernels(case, **tile, chunk=36, pad=1) == ["pad_input", "sum_windows"]
    assert kernels(case, **odd, chunk=36, crop=1) == ["sum_windows", "crop_output"]
    assert kernels(case, **odd, chunk=36) == ["sum_windows"]
    every = ["pad_input", "sum_windows", "add_chunks", "crop_output"]
    assert kernels(case, **odd, chunk=12, pad=1, crop=1) == every
    with pytest.raises(InvalidValue, match="there is something to crop"):
        kernels(case, **tile, chunk=36, crop=1)


def loops(body, names=()):
    for one in body:
        if isinstance(one, ForLoop):
            names = (*names, one.name)
            names = loops(one.body, names)
    return names


def test_loops_over_ids_vanish_where_there_are_as_many_items():
    case = problem((4, 4, 3, 3), (8, 8), padding=1)
    tile = dict(tile_height=4, tile_width=4, chunk=9)

    def names(**parameters):
        work = direct_work(case, DirectPoint(**tile, **parameters), ROOMY)
        return loops(work.kernels[0].body)

    assert {"window_round", "chunk_round"} <= {*names()}
    assert "chunk_round" not in names(local_chunks=4)
    assert "window_round" not in names(local_windows=4)
    assert "chunk_round" in names(local_chunks=2, local_windows=4)


def test_a_layer_of_one_axis():
    layer = Layer.of((4, 4, 5), "float32", layout="NWC", padding=2)
    case = layer.problem((2, 19, 4))
    for point in drawn(case, 1, 3):
        check_line(case, point)


def check_line(case: Problem, point: DirectPoint) -> None:
    work = direct_work(case, point, limits())
    given = {"input": integers(2, 19, 4), "weights": integers(4, 4, 5)}
    results = devices.run(render(work, "opencl"), work, given, FAST)
    wanted = reference.convolve(
        given["input"], given["weights"], stride=(1,), padding=[(2, 2)], dilation=(1,), layout="NWC"
    )
    np.testing.assert_array_equal(results["output"], wanted, err_msg=str(point))


def test_an_image_without_a_batch():
    layer = Layer.of((4, 4, 3, 3), "float32", layout="NHWC", padding=1)
    case = layer.problem((6, 5, 4))
    check(case, drawn(case, 1, 1)[0])
