"""Problems of degenerate geometry by the thousand, against the integer reference.

    python tests/conv/fuzz.py --problems 100000 --seed 1 --jobs 2

Maps of one pixel, padding of twelve on one side, strides beyond the kernel, groups of every kind. A
problem follows from the seed and its index alone, so that a failure is repeated in one line, which
is printed with it. Kernels take their sizes at run time: they are compiled once and are few.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))

from conv import exact
from conv.reference import convolve

import winogen
from winogen import records
from winogen.conv import arguments
from winogen.errors import InvalidValue
from winogen.rounding.formats import FORMATS

SLOPE = 0.5  # of leaky_relu: exact
RARER = ("relu6", ("clip", -3, 11), ("prelu", 0.5))
MOST_CHANNELS = 40
ROOM = 64  # numbers around every array, which nobody may write, or read and use
# Relative to the sum of all absolute products; far above the errors of any tile that `auto` takes.
AUTO_ERROR = 5e-5
# Flytes that hold the integers of a problem.
FLYTES = [one.name for one in records.FLYTES if one.bits > 4]


def rounding(dtype: str) -> float:
    """Of an output, relative to it: twice the unit roundoff."""
    return 0.0 if dtype in records.COMPUTED_TYPES else 2 * FORMATS[dtype].unit


def stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers as arrays of a type have them."""
    if dtype in records.FLYTE_TYPES:
        return winogen.narrow(values.astype(records.NUMBERS[dtype].wide), dtype)
    with np.errstate(over="ignore"):
        return values.astype(arguments.dtype_named(dtype))


def read(array: np.ndarray) -> np.ndarray:
    """Numbers of an array, as float64."""
    return (winogen.widen(array) if array.dtype.names else array).astype(np.float64)


@dataclass(frozen=True)
class Case:
    """One problem: what `conv2d` is given, but for the numbers."""

    weight: tuple[int, int, int, int]
    image: tuple[int, int, int]  # batch, height, width
    dtype: str
    padding: tuple[tuple[int, int], tuple[int, int]]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    padding_mode: str
    layout: str
    activation: str | tuple | None
    has_bias: bool
    offset: int  # of the output in its memory, in numbers
    limit: str  # of the workspace: "", "as planned" or "least"
    sliced: tuple[str, ...]  # arrays that are slices of the channels of larger ones
    added: tuple[str, ...]  # what the epilogue adds
    data: int  # seed of the numbers
    asked: dict = field(default_factory=dict)  # algorithm, tile, points, edge, border, threads

    @property
    def computed(self) -> str:
        """What it is computed in."""
        return records.NUMBERS[self.dtype].computed

    @property
    def tiled(self) -> bool:
        """Whether a Winograd algorithm is asked for."""
        return self.asked["algorithm"] in exact.WINOGRAD


def case_of(seed: int, index: int) -> Case:
    """Return problem ``index`` of a seed."""
    rng = random.Random(f"{seed} {index}")
    while True:
        case = _attempt(rng)
        padded = [size + sum(ends) for size, ends in zip(case.image[1:], case.padding)]
        reach = [d * (k - 1) + 1 for d, k in zip(case.dilation, case.weight[2:])]
        if padded[0] >= reach[0] and padded[1] >= reach[1]:
            return case


def narrow_case_of(seed: int, index: int) -> Case:
    """Return a problem of float32 whose arrays, not its weights, have 16 bits of each number."""
    while (case := case_of(seed, index)).dtype != "float32":
        seed += 1
    return replace(case, dtype=("float16", "bfloat16")[index % 2])


def flyte_case_of(seed: int, index: int) -> Case:
    """Return a problem whose arrays, not its weights, are of flytes."""
    name = FLYTES[index % len(FLYTES)]
    while (case := case_of(seed, index)).dtype != records.NUMBERS[name].wide:
        seed += 1
    return replace(case, dtype=name)


def _attempt(rng: random.Random) -> Case:
    names = ("direct", "im2col", "winograd2d", "winograd1d", "mcmr", "auto")
    algorithm = rng.choices(names, (6, 2, 4, 2, 3, 2))[0]
    dtype = rng.choices(("float32", "float64"), (3, 1))[0]
    tiled = algorithm in exact.WINOGRAD
    groups, channels, filters = _counts(rng)
    kernel, stride, dilation = exact.KERNEL, (1, 1), (1, 1)
    if not tiled:
        usual = rng.choice((1, 3, 3, 5))
        kernel = (usual, usual) if rng.random() < 0.5 else _pair(rng, 1, 5)
        stride = rng.choice(((1, 1), (1, 1), (2, 2), _pair(rng, 1, 2), _pair(rng, 1, 7)))
        dilation = rng.choice(((1, 1), (1, 1), _pair(rng, 1, 3)))
    elif algorithm == "mcmr" and dtype == "float32" and rng.random() < 0.3:
        stride = (2, 2)
    elif algorithm == "mcmr" and dtype == "float32" and rng.random() < 0.4:
        dilation = _pair(rng, 1, 4)
    if algorithm == "auto" and stride == dilation == (1, 1) and rng.random() < 0.9:
        stride = (2, 1)  # the tiles that it would choose are many, and so are their kernels
    mode = rng.choice(exact.MODES)
    size = [_size(rng), _size(rng)]
    spare = {"reflect": -1, "circular": 0}.get(mode)
    padding = tuple(
        tuple(min(end, one + spare) if spare is not None else end for end in _ends(rng))
        for one in size
    )
    asked = {"algorithm": algorithm, "threads": rng.choice((1, 1, 2, 3))}
    if tiled:
        points = exact.POINTS if dtype == "float32" else exact.HALF_POINTS
        tile = exact.TILE if dtype == "float32" else exact.HALF_TILE
        asked |= exact.chosen(algorithm, tile, points, stride)
        if dilation == (1, 1):
            asked["edge"] = rng.choice(("discard", "discard", "direct"))
        if dtype == "float32" and stride == dilation == (
            1,
            1,
        ):  # else kernels of one border will do
            asked["border"] = rng.choice(exact.BORDERS)
    return Case(
        weight=(groups * filters, channels, *kernel),
        image=(rng.choice((1, 1, 2, 3)), *size),
        dtype=dtype,
        padding=padding,
        stride=stride,
        dilation=dilation,
        groups=groups,
        padding_mode=mode,
        layout=rng.choice(exact.LAYOUTS),
        activation=rng.choice((None, "relu", ("leaky_relu", SLOPE), *RARER)),
        has_bias=rng.random() < 0.6,
        offset=rng.choice((0, 0, rng.randrange(17))),
        limit=rng.choices(("", "as planned", "least"), (8, 1, 1))[0],
        sliced=_some(rng, ("input", "out", "add", "add_after")),
        added=_some(rng, ("add", "add_after")),
        data=rng.randrange(1 << 30),
        asked=asked,
    )


def _counts(rng: random.Random) -> tuple[int, int, int]:
    """Groups, and channels and filters of each: dense, depthwise, with a multiplier, any."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randint(1, MOST_CHANNELS), 1, 1
    if kind == 1:
        groups = rng.randint(1, MOST_CHANNELS // 2)
        return groups, 1, rng.randint(1, MOST_CHANNELS // groups)
    if kind == 2:
        groups = rng.randint(2, 5)
        return groups, *_pair(rng, 1, MOST_CHANNELS // groups)
    if kind == 3:
        return 1, rng.randint(1, 8), rng.randint(1, MOST_CHANNELS)
    return 1, *_pair(rng, 1, MOST_CHANNELS)


def _some(rng: random.Random, names: tuple[str, ...]) -> tuple[str, ...]:
    """Mostly none of them."""
    return tuple(name for name in names if rng.random() < 0.5) if rng.random() < 0.3 else ()


def _pair(rng: random.Random, least: int, most: int) -> tuple[int, int]:
    return rng.randint(least, most), rng.randint(least, most)


def _size(rng: random.Random) -> int:
    return rng.choice((1, rng.randint(1, 4), rng.randint(2, 9), rng.randint(5, 33)))


def _ends(rng: random.Random) -> tuple[int, int]:
    """Padding before and after: mostly none or a little, now and then much on one side."""
    kind = rng.randrange(4)
    if kind == 0:
        return 0, 0
    if kind == 1:
        return _pair(rng, 0, 2)
    ends = rng.randint(0, 12), rng.randint(0, 1)
    return ends if kind == 2 else ends[::-1]


def check(case: Case) -> None:
    """Raise AssertionError unless conv2d computes the problem, and touches nothing else."""
    tiled = case.tiled
    rng = np.random.default_rng(case.data)
    batch, height, width = case.image
    largest = 1 if tiled else 3
    x = rng.integers(-largest, largest + 1, (batch, case.weight[1] * case.groups, height, width))
    w = rng.integers(-largest, largest + 1, case.weight)
    bias = rng.integers(-9, 10, case.weight[0]) if case.has_bias else None
    if tiled:
        given = case.asked
        tile = (exact.TILE if case.computed == "float32" else exact.HALF_TILE), given["points"]
        w = w * exact.scale(given["algorithm"], *tile, case.stride)
    if case.layout == "NHWC":
        x = x.transpose(0, 2, 3, 1)
    options = {
        name: getattr(case, name)
        for name in ("padding", "stride", "dilation", "groups", "padding_mode", "layout")
    }
    shape = convolve(x, w, **options).shape
    added = {name: rng.integers(-9, 10, shape) for name in case.added}
    expected = convolve(x, w, bias, activation=case.activation, **added, **options)
    expected = expected.astype(np.float64)
    options |= {"activation": case.activation, **case.asked}
    expected = read(stored(expected, case.dtype))  # rounded once, where numbers are narrow
    unknown, known = (stored(np.array(value), case.dtype)[()] for value in (np.nan, 7.5))
    memory = np.full(x.size + 2 * ROOM, unknown, arguments.dtype_named(case.dtype))
    image = memory[ROOM : ROOM + x.size].reshape(x.shape)
    image[...] = stored(x, case.dtype)
    around = np.full(expected.size + 2 * ROOM + case.offset, known, memory.dtype)
    begin, end = ROOM + case.offset, ROOM + case.offset + expected.size
    out = around[begin:end].reshape(expected.shape)
    out[...] = unknown
    weight = w.astype(case.computed)
    if case.limit:
        options["workspace_limit"] = _limit(case, weight, image.shape, options)
    arrays = {"input": image, "out": out}
    arrays |= {name: stored(array, case.dtype) for name, array in added.items()}
    beside = {}
    for name in case.sliced:
        if name in arrays:
            around_it = known if name == "out" else unknown
            arrays[name], beside[name] = exact.slice_of(arrays[name], case.layout, rng, around_it)
    image, out = arrays.pop("input"), arrays["out"]
    if bias is not None:
        bias = bias.astype(case.computed)
    winogen.conv2d(image, weight, bias, **arrays, **options)
    for unharmed in beside.values():
        unharmed()
    rest = np.concatenate([around[:begin], around[end:]])
    assert rest.tobytes() == np.full_like(rest, known).tobytes(), "wrote beside the output"
    out = read(out)
    if case.asked["algorithm"] == "auto":
        names = ("padding", "stride", "dilation", "groups", "padding_mode", "layout")
        sums = convolve(abs(x), abs(w), None if bias is None else abs(bias),
                        **{name: options[name] for name in names})  # fmt: skip
        near = AUTO_ERROR * max(1, sums.max()) + abs(expected) * rounding(case.dtype)
        wrong = ~(abs(out - expected) <= near)
    else:
        wrong = out != expected
    assert not wrong.any(), (
        f"{wrong.sum()} of {wrong.size} outputs are wrong, {np.argwhere(wrong)[0]}"
    )


def _limit(case: Case, weight: np.ndarray, shape: tuple, options: dict) -> int:
    """As many bytes as the plan has, or the fewest with which there is one."""
    if case.limit == "as planned":
        return winogen.Conv2d(weight, **options).plan(shape, case.dtype).workspace_bytes
    try:
        plan = winogen.Conv2d(weight, **options, workspace_limit=0).plan(shape, case.dtype)
    except InvalidValue as error:
        least = int(re.search(r"at least (\d+) bytes", str(error))[1])
        plan = winogen.Conv2d(weight, **options, workspace_limit=least).plan(shape, case.dtype)
        assert plan.workspace_bytes <= least, (
            f"{plan.workspace_bytes} bytes with a limit of {least}"
        )
        return least
    assert plan.workspace_bytes == 0
    return 0


def failures(
    seed: int, indices: range, of: Callable[[int, int], Case] = case_of
) -> Iterator[tuple[int, str]]:
    """Yield (index, what is wrong) of every problem that is computed wrongly."""
    for index in indices:
        case = of(seed, index)
        try:
            check(case)
        except Exception as error:  # whatever it is, it is no right result
            yield index, f"{type(error).__name__}: {error}\n  {case}"


def compile_quickly() -> None:
    """Compile kernels with -Og in this process."""
    from winogen.conv import stock

    stock.FLAGS = (*dict.fromkeys((*stock.FLAGS, "-Og")),)


KINDS = {"usual": case_of, "narrow": narrow_case_of, "flytes": flyte_case_of}


def _piece(seed: int, indices: range, quickly: bool, kind: str) -> list[tuple[int, str]]:
    if quickly:
        compile_quickly()
    return list(failures(seed, indices, KINDS[kind]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="index of the first problem")
    parser.add_argument("--arrays", choices=KINDS, default="usual", help="narrow: of 16 bits")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--shipped", action="store_true", help="compile as for users, not with -Og")
    asked = parser.parse_args()
    os.environ.setdefault("WINOGEN_CALIBRATE", "0")  # the same plans on every machine
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    last, step = asked.first + asked.problems, 250
    pieces = [range(i, min(i + step, last)) for i in range(asked.first, last, step)]
    wrong, done, begin = 0, 0, time.perf_counter()
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        work = [
            pool.submit(_piece, asked.seed, piece, not asked.shipped, asked.arrays)
            for piece in pieces
        ]
        for piece, future in zip(pieces, work):
            for index, what in future.result():
                wrong += 1
                again = f"--seed {asked.seed} --first {index} --problems 1 --arrays {asked.arrays}"
                print(f"python tests/conv/fuzz.py {again}")
                print(f"  {what}", flush=True)
            done += len(piece)
            rate = done / (time.perf_counter() - begin)
            print(
                f"{done} problems, {wrong} wrong, {rate:.0f} a second", file=sys.stderr, flush=True
            )
    print(f"{done} problems, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
