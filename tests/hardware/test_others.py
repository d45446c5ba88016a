"""Pools, sums and activations on an engine: every count beside one by brute force."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.hardware import Engine, figures
from winogen.hardware.events import fill_and_drain, simulate
from winogen.hardware.nets import NETS, all_layers, layers
from winogen.hardware.others import bytes_together, cycles_together
from winogen.hardware.schedules import SCHEDULES
from winogen.hardware.traffic import traffic

WINDOWS = [
    {"kernel": 2, "stride": 2},
    {"kernel": 3, "stride": 2, "padding": 1},
    {"kernel": 3, "stride": 1, "padding": 1},
    {"kernel": 3, "stride": 2, "padding": ((0, 1), (0, 1))},
    {"kernel": (3, 2), "stride": (1, 3)},
    {"kernel": 2, "dilation": 2},
    {"kernel": None},
]
ENGINES = [Engine(3, 4, 5, 2), Engine(8, 6, 4, 1), Engine(4, 4, 4, 3)]


def seen(layer, output):
    """The inputs (y, x) of a window, one for each tap; None in the padding."""
    down, right = layer.problem.layer.plane
    height, width = layer.problem.size
    for tap_y, tap_x in product(range(down.kernel), range(right.kernel)):
        y = output[0] * down.stride + tap_y * down.dilation - down.before
        x = output[1] * right.stride + tap_x * right.dilation - right.before
        yield (y, x) if 0 <= y < height and 0 <= x < width else None


def computed(engine, layer, arrays):
    """The result of places that take an operand in a cycle, the cycles, and the words read."""
    batch, channels, *_ = layer.problem.input_shape
    result = np.full(layer.problem.output_shape, -99 if layer.kind == "max" else 0)
    pixels = list(np.ndindex(batch, *layer.problem.output_size))
    cycles, read = 0, set()
    at_once, places = min(engine.f_i, engine.f_o), engine.T * engine.L
    for channel, first in product(range(0, channels, at_once), range(0, len(pixels), places)):
        windows = {one: list(seen(layer, one[1:])) for one in pixels[first : first + places]}
        taps = len(next(iter(windows.values())))
        for number, tap in product(range(len(arrays)), range(taps)):
            cycles += 1
            for (n, *at), window in windows.items():
                if window[tap] is None:
                    continue
                for c in range(channel, min(channel + at_once, channels)):
                    read.add((number, n, c, *window[tap]))
                    operand, place = arrays[number][n, c][window[tap]], (n, c, *at)
                    both = result[place], operand
                    result[place] = max(both) if layer.kind == "max" else sum(both)
    return result, cycles, len(read)


def directly(layer, arrays):
    result = np.empty(layer.problem.output_shape, int)
    combine = max if layer.kind == "max" else sum
    for n, c, *at in np.ndindex(result.shape):
        windows = (one for one in seen(layer, at) if one is not None)
        result[(n, c, *at)] = combine(x[n, c][one] for one in windows for x in arrays)
    return result


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize(
    ("kind", "options"),
    [("max", one) for one in WINDOWS] + [("average", WINDOWS[1]), ("average", WINDOWS[-1]),
     ("sum", {}), ("sum", {"maps": 3}), ("activation", {})],
)  # fmt: skip
def test_cycles_and_words_of_a_phase_of_its_own(engine, kind, options):
    mapping = engine.other(kind, (2, 7, 6, 9), **options)
    layer = mapping.layer
    arrays = np.random.default_rng(0).integers(-9, 9, (layer.maps, *layer.problem.input_shape))
    result, cycles, read = computed(engine, layer, arrays)
    assert (result == directly(layer, arrays)).all()
    assert mapping.cycles == cycles and mapping.inputs == read and mapping.outputs == result.size
    rows = [{one[0] for x in range(result.shape[3]) for one in seen(layer, (y, x)) if one}
            for y in range(result.shape[2])]  # fmt: skip
    spans = [max(some) - min(some) + 1 for some in rows if some]
    assert mapping.rows == (max(spans) if kind in ("max", "average") else 0)
    at_once = min(engine.f_i, engine.f_o, 7)
    assert mapping.buffer == at_once * mapping.rows * 9


def convolution(engine, kernel, size=(9, 14), filters=7, **options):
    shape = (filters, 5 // options.get("groups", 1), kernel, kernel)
    return engine.mapping((2, 5, *size), shape, padding=kernel // 2, **options)


FUSED = [("max", one) for one in WINDOWS] + [("sum", {}), ("sum", {"maps": 3}), ("activation", {})]


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(("kind", "options"), FUSED)
def test_what_is_fused_waits_for_its_operands_only(engine, kernel, kind, options):
    """The end of a simulation beside a queue of jobs, each of which knows its tiles."""
    before = convolution(engine, kernel)
    other = engine.other(kind, before.problem.output_shape, before=before, **options)
    fill, drain = fill_and_drain(before)
    height, width = before.map
    tiles = {}  # output -> block of tiles, in the order of the map
    if kernel == 1:
        for number, pixel in enumerate(np.ndindex(2, height, width)):
            tiles[pixel] = number // engine.T // engine.L
    else:
        corners = product(range(2), range(0, height, engine.m), range(0, width, engine.m))
        for number, (n, y, x) in enumerate(corners):
            for i, j in product(range(engine.m), repeat=2):
                tiles[n, y + i, x + j] = number // engine.L
    pixels, places = list(np.ndindex(2, *other.layer.problem.output_size)), engine.T * engine.L
    jobs = [
        max((tiles[(n, *one)] for n, *at in pixels[: first + places]
             for one in seen(other.layer, at) if one), default=0)
        for first in range(0, len(pixels), places)
    ]  # fmt: skip
    assert other.needed() == [tile + 1 for tile in jobs]
    step = before.passes * before.channel_blocks * before.rows
    ready = sorted(
        fill + (tile * before.filter_blocks + f + 1) * step + drain
        for tile in jobs
        for f in range(before.filter_blocks)
    )
    end = 0
    for time in ready:
        end = max(end, time) + other.operands
    trace = simulate(before, fused=other)
    assert trace.cycles == max(end, fill + before.cycles + drain)
    assert trace.events["operands"] == other.cycles == other.operands * len(ready)
    assert trace.busy == before.cycles and trace.stalls == 0
    assert trace.cycles >= cycles_together(before, [other])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_groups_and_schedules_take_as_many_operands(schedule):
    engine = Engine(4, 4, 4, 2)
    before = engine.mapping((1, 12, 9, 9), (24, 4, 3, 3), padding=1, groups=3, stride=2)
    other = engine.other("max", (1, 24, 5, 5), 2, before=before)
    trace = simulate(before, schedule, fused=other)
    assert trace.events["operands"] == other.cycles == 4 * 6 * 2
    assert trace.busy == before.cycles


def test_outputs_that_come_in_the_end_are_not_hidden():
    """With filters stationary sums are done when the last channels are."""
    engine = Engine(2, 4, 8, 1)
    before = engine.mapping((1, 16, 16, 16), (8, 16, 3, 3), padding=1)
    other = engine.other("max", (1, 8, 16, 16), 3, padding=1, before=before)
    by_outputs, by_weights = (simulate(before, name, fused=other) for name in ("OS", "WS"))
    assert by_outputs.cycles - by_outputs.fill < 1.05 * cycles_together(before, [other])
    assert by_weights.drain > 3 * by_outputs.drain


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("window", WINDOWS)
def test_rows_of_the_ring(engine, kernel, window):
    before = convolution(engine, kernel, (11, 14))
    other = engine.other("max", before.problem.output_shape, before=before, **window)
    high = before.engine.m if kernel > 1 else 1
    wanted = [{one[0] for x in range(other.layer.problem.output_size[1])
               for one in seen(other.layer, (y, x)) if one}
              for y in range(other.layer.problem.output_size[0])]  # fmt: skip
    held, most = set(), 0
    for first in range(0, 11, high):
        left = [rows for rows in wanted if rows and not rows <= set(range(first))]
        lowest = min((min(rows) for rows in left), default=11)
        held = {y for y in held if y >= lowest} | set(range(first, min(first + high, 11)))
        most = max(most, len({y for y in held if y >= lowest}))
    assert other.rows == most
    assert other.buffer == 7 * most * 14


def test_words_of_what_is_fused():
    engine = Engine(4, 4, 4, 2)
    before = engine.mapping((1, 8, 12, 12), (16, 8, 3, 3), padding=1)
    moved, shape = traffic(before, "OS", 1 << 20), before.problem.output_shape
    pool = engine.other("max", shape, 2, stride=2, before=before)
    add = engine.other("sum", shape, before=before)
    assert (pool.inputs, pool.outputs, add.inputs, add.outputs) == (0, 576, 2304, 2304)
    assert bytes_together(moved, []) == moved.bytes
    assert bytes_together(moved, [pool]) == moved.bytes - 2304 + 576
    joined = engine.other("concatenation", shape, before=before)
    assert bytes_together(moved, [joined]) == moved.bytes and joined.cycles == 0
    assert bytes_together(moved, [add, pool]) == moved.bytes + 576
    assert engine.other("activation", shape, before=before).cycles == 0
    free = engine.other("concatenation", shape)
    assert (free.cycles, free.inputs, free.outputs) == (0, 0, 0)
    beside = traffic(before, "OS", 8192, held=1024)
    assert beside.block.maps <= 4096 and beside.bytes > traffic(before, "OS", 8192).bytes
    assert traffic(before, "OS", 1 << 20, held=1024).bytes == moved.bytes


@pytest.mark.parametrize("net", NETS)
def test_nets_with_what_lies_between(net):
    convolutions = [one.convolution for one in all_layers(net) if one.convolution is not None]
    assert tuple(convolutions) == layers(net)
    for convolution_, others in all_layers(net):
        for one in others:
            assert convolution_ is None or one.problem.input_shape == convolution_.output_shape
    found = figures.whole_net(net, figures.MEDIUM)
    means = figures.means(figures.mappings(net, figures.MEDIUM))
    assert found["convolutions"].busy == means.cycles
    busy = figures.by_schedule(net)["OS"]
    assert found["convolutions"].busy_with_memory == pytest.approx(busy)
    alone, apart, fused = found.values()
    assert alone.cycles <= fused.cycles < apart.cycles and fused.bytes < apart.bytes
    more = sum(one.times * one.cycles for one in figures.others(net, figures.MEDIUM) if one.fused)
    assert apart.cycles >= alone.cycles + more
    assert fused.busy_with_memory > apart.busy_with_memory


def test_pools_of_channels_behind_one_another_are_those_of_the_whole():
    halves = {one.name: one for one in figures.others("googlenet", figures.MEDIUM)}
    parts = [halves[f"28x28, {c}, max 3x3/2"].cycles for c in (128, 192, 96, 64)]
    whole = figures.MEDIUM.other("max", (1, 480, 28, 28), 3, stride=2, padding=((0, 1), (0, 1)))
    assert sum(parts) == whole.cycles and whole.layer.problem.output_size == (14, 14)


@pytest.mark.parametrize("net", ["vgg16", "resnet50", "inception-v3"])
def test_pools_are_those_of_the_nets_in_pytorch(net):
    torch = pytest.importorskip("torch")
    from winogen_lab.nets import NETS as MODULES

    with torch.device("meta"):
        module, x = MODULES[net].module(), torch.zeros(MODULES[net].input)
    wanted, sums = Counter(), []

    def note(pool, inputs, output):
        wanted[tuple(inputs[0].shape[2:]), tuple(output.shape[2:])] += output.shape[1]

    for one in module.modules():
        if "Pool" in type(one).__name__:
            one.register_forward_hook(note)
    module(x)
    found = Counter()
    for layer in (other for one in all_layers(net) for other in one.others):
        problem = layer.problem
        if layer.kind == "sum":
            sums.append(layer)
        else:
            found[problem.size, problem.output_size] += problem.layer.channels
    assert found == wanted and len(sums) == (16 if net == "resnet50" else 0)


def test_refusals():
    engine = Engine(4, 4, 4, 1)
    before = engine.mapping((1, 4, 8, 8), (8, 4, 3, 3), padding=2, dilation=2)
    with pytest.raises(InvalidValue, match="kind: got 'softmax'; allowed: \"max\", "):
        engine.other("softmax", (1, 4, 8, 8))
    with pytest.raises(InvalidValue, match=r"input: got \(4, 8, 8\); allowed: \(N, C, H, W\)"):
        engine.other("max", (4, 8, 8), 2)
    with pytest.raises(InvalidType, match="input: got "):
        engine.other("max", (1, 4, 8, 8.0), 2)
    pools = "kernel, stride, padding, dilation of max and average pools"
    with pytest.raises(InvalidValue, match=f"kernel: got 2; allowed: {pools}"):
        engine.other("sum", (1, 4, 8, 8), 2)
    with pytest.raises(InvalidValue, match=f"stride: got 2; allowed: {pools}"):
        engine.other("activation", (1, 4, 8, 8), stride=2)
    with pytest.raises(InvalidValue, match=f"groups: got 4; allowed: {pools}"):
        engine.other("max", (1, 4, 8, 8), 2, groups=4)
    with pytest.raises(InvalidType, match="kernel: got 2.5; allowed: a positive int, two"):
        engine.other("max", (1, 4, 8, 8), 2.5)
    with pytest.raises(InvalidValue, match="maps: got 2 for kind='max'"):
        engine.other("max", (1, 4, 8, 8), 2, maps=2)
    with pytest.raises(InvalidValue, match="maps: got 1; allowed: an int of at least 2"):
        engine.other("sum", (1, 4, 8, 8), maps=1)
    with pytest.raises(InvalidValue, match=r"before: got outputs \(1, 8, 8, 8\); allowed: \(1, 4"):
        engine.other("max", (1, 4, 8, 8), 2, before=before)
    with pytest.raises(Unsupported, match=r"before: got dilation \(2, 2\); allowed: 1"):
        engine.other("max", (1, 8, 8, 8), 2, before=before)
    with pytest.raises(Unsupported, match="before: got ⟨4,4,4,1⟩; allowed: ⟨4,4,4,2⟩"):
        Engine(4, 4, 4, 2).other("max", (1, 8, 8, 8), 2, before=before)
    pool = engine.other("max", (1, 8, 8, 8), 2)
    with pytest.raises(InvalidValue, match="fused: got what is not fused with this layer"):
        simulate(before, fused=pool)
