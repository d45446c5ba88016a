"""Quantised convolutions by the thousand, to the bit, against ONNX's reference evaluator.

    python tests/conv/fuzz_quantized.py --problems 10000 --seed 1 --isa avx2 --reference onnx

A problem follows from the seed and its index alone, so that a failure is repeated in one line,
which is printed with it. The other reference is numpy, in int64: it is quicker.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))

from conv import exact
from conv.fuzz import ROOM, compile_quickly
from conv.reference import convolve

import winogen
from winogen.conv import quantized_planner
from winogen.kernels.dots import dots_of

TYPES = ("uint8", "int8")
ALGORITHMS = ("direct", "im2col", "auto")


@dataclass(frozen=True)
class Case:
    """One problem: what `QConv2d` is given, but for the numbers."""

    weight: tuple[int, int, int, int]
    image: tuple[int, int, int]  # batch, height, width
    padding: tuple[tuple[int, int], tuple[int, int]]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    layout: str
    algorithm: str
    types: tuple[str, str, str]  # of input, weight, output
    scaled: bool  # else sums in int32
    has_bias: bool
    w_zeros: str  # "", "one" or "each"
    w_scales: bool  # one for each filter
    ties: bool  # scales that make halves
    extreme: bool  # numbers at the ends of their ranges
    activation: str | None
    sliced: tuple[str, ...]
    threads: int
    data: int  # seed of the numbers


def case_of(seed: int, index: int) -> Case:
    """Return problem ``index`` of a seed."""
    rng = random.Random(f"{seed} {index}")
    while True:
        case = _attempt(rng)
        padded = [size + sum(ends) for size, ends in zip(case.image[1:], case.padding)]
        reach = [d * (k - 1) + 1 for d, k in zip(case.dilation, case.weight[2:])]
        if padded[0] >= reach[0] and padded[1] >= reach[1]:
            return case


def _attempt(rng: random.Random) -> Case:
    groups = rng.choice((1, 1, 1, 2, 3, 5))
    channels = rng.choice((1, 2, 3, 4, 5, 8, 9, 17, 33, 70) if groups == 1 else (1, 1, 2, 3, 7))
    filters = rng.choice((1, 2, 3, 8, 17, 33, 50) if groups == 1 else (1, 1, 2, 5))
    usual = rng.choice((1, 3, 3, 5))
    pair = lambda least, most: (rng.randint(least, most), rng.randint(least, most))
    size = lambda: rng.choice((1, rng.randint(1, 4), rng.randint(2, 9), rng.randint(5, 33)))
    ends = lambda: rng.choice(((0, 0), pair(0, 2), (rng.randint(0, 9), 0), (0, rng.randint(0, 9))))
    return Case(
        weight=(groups * filters, channels, *(rng.choice(((usual, usual), pair(1, 5))))),
        image=(rng.choice((1, 1, 2, 3)), size(), size()),
        padding=(ends(), ends()),
        stride=rng.choice(((1, 1), (1, 1), (2, 2), pair(1, 2), pair(1, 5))),
        dilation=rng.choice(((1, 1), (1, 1), (1, 1), pair(1, 3))),
        groups=groups,
        layout=rng.choice(exact.LAYOUTS),
        algorithm=rng.choice(ALGORITHMS),
        types=(rng.choice(TYPES), rng.choice(TYPES), rng.choice(TYPES)),
        scaled=rng.random() < 0.7,
        has_bias=rng.random() < 0.6,
        w_zeros=rng.choice(("", "", "one", "each")),
        w_scales=rng.random() < 0.5,
        ties=rng.random() < 0.3,
        extreme=rng.random() < 0.2,
        activation=rng.choice((None, None, "relu")),
        sliced=rng.choice(((), (), ("input",), ("out",), ("input", "out"))),
        threads=rng.choice((1, 1, 2, 3)),
        data=rng.randrange(1 << 30),
    )


@dataclass(frozen=True)
class Numbers:
    """The arrays of a case; input in NCHW, and everything as ONNX takes it."""

    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray | None
    x_zero: np.ndarray
    w_zero: np.ndarray
    y_zero: np.ndarray
    x_scale: np.ndarray
    w_scale: np.ndarray
    y_scale: np.ndarray


def numbers_of(case: Case) -> Numbers:
    """Return the numbers of a case."""
    rng = np.random.default_rng(case.data)

    def draw(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if case.extreme:
            return np.where(rng.random(shape) < 0.9, most if dtype == "uint8" else least, most
                            ).astype(dtype)  # fmt: skip
        return rng.integers(least, most + 1, shape).astype(dtype)

    x_type, w_type, y_type = case.types
    filters, channels = case.weight[:2]
    batch, height, width = case.image
    zeros = {"": np.zeros((), w_type), "one": draw(w_type, ()), "each": draw(w_type, (filters,))}
    terms = int(np.prod(case.weight[1:]))
    real = 0.02 / np.sqrt(terms)
    w_scale = rng.uniform(real / 2, real, filters if case.w_scales else ())
    x_scale, y_scale = rng.uniform(0.5, 1), rng.uniform(0.5, 1)
    if case.ties:
        w_scale, x_scale, y_scale = 2.0 ** -rng.integers(3, 12, w_scale.shape), 1.0, 1.0
    return Numbers(
        draw(x_type, (batch, channels * case.groups, height, width)),
        draw(w_type, case.weight),
        rng.integers(-5000, 5000, filters).astype(np.int32) if case.has_bias else None,
        draw(x_type, ()), zeros[case.w_zeros], draw(y_type, ()),
        np.float32(x_scale), np.asarray(w_scale, np.float32), np.float32(y_scale),
    )  # fmt: skip


def numpy_result(case: Case, n: Numbers) -> np.ndarray:
    """What the definition says, computed in int64 and float64."""
    each = (-1, 1, 1, 1)
    w = n.w.astype(np.int64) - n.w_zero.astype(np.int64).reshape(each if n.w_zero.ndim else ())
    sums = convolve(
        n.x.astype(np.int64) - int(n.x_zero), w, None if n.bias is None else n.bias.astype(int),
        padding=case.padding, stride=case.stride, dilation=case.dilation, groups=case.groups,
        padding_mode="zeros", layout="NCHW",
    )  # fmt: skip
    if not case.scaled:
        return sums.astype(np.int32)
    multiplier = n.x_scale * n.w_scale / n.y_scale
    assert multiplier.dtype == np.float32
    limits = np.iinfo(case.types[2])
    y = sums * multiplier.astype(np.float64).reshape((-1, 1, 1)) + int(n.y_zero)
    return np.rint(np.clip(y, limits.min, limits.max)).astype(case.types[2])


def onnx_result(case: Case, n: Numbers) -> np.ndarray:
    """What ONNX's reference evaluator makes of it."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    (top, bottom), (left, right) = case.padding
    options = {
        "pads": [top, left, bottom, right], "strides": case.stride, "dilations": case.dilation,
        "group": case.groups,
    }  # fmt: skip
    if case.scaled:
        names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
        names += ["bias"] * case.has_bias
        node = helper.make_node("QLinearConv", names, ["y"], **options)
    else:
        names = ["x", "w", "x_zero", "w_zero"]
        node = helper.make_node("ConvInteger", names, ["y"], **options)
    feeds = {name: np.asarray(getattr(n, name)) for name in names}
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    inputs = [
        helper.make_tensor_value_info(name, kinds[name], a.shape) for name, a in feeds.items()
    ]
    output = np.dtype(case.types[2] if case.scaled else "int32")
    outputs = [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(output), None)]
    graph = helper.make_graph([node], "one", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    y = ReferenceEvaluator(model).run(None, feeds)[0]
    if not case.scaled and case.has_bias:
        y = y + n.bias[:, None, None]
    return y


def check(case: Case, reference: str) -> None:
    """Raise AssertionError unless QConv2d computes the problem, and touches nothing else."""
    n = numbers_of(case)
    expected = (onnx_result if reference == "onnx" else numpy_result)(case, n)
    if case.activation:
        expected = np.maximum(expected, n.y_zero if case.scaled else 0).astype(expected.dtype)
    x = n.x
    if case.layout == "NHWC":
        x, expected = x.transpose(0, 2, 3, 1), expected.transpose(0, 2, 3, 1)
    memory = np.full(x.size + 2 * ROOM, 77, x.dtype)
    image = memory[ROOM : ROOM + x.size].reshape(x.shape)
    image[...] = x
    around = np.full(expected.size + 2 * ROOM, 77, expected.dtype)
    out = around[ROOM : ROOM + expected.size].reshape(expected.shape)
    out[...] = 55
    rng, unharmed = np.random.default_rng(case.data), []
    if "input" in case.sliced:
        image, check_around = exact.slice_of(image, case.layout, rng, 77)
    if "out" in case.sliced:
        out, check_around = exact.slice_of(out, case.layout, rng, 77)
        unharmed.append(check_around)
    scales = {}
    if case.scaled:
        scales = {name: getattr(n, name) for name in ("w_scale", "x_scale", "y_scale", "y_zero")}
        scales["y_dtype"] = case.types[2]
    conv = winogen.QConv2d(
        n.w, n.bias, case.stride, case.padding, case.dilation, case.groups, **scales,
        x_zero=n.x_zero, w_zero=n.w_zero, layout=case.layout, activation=case.activation,
        algorithm=case.algorithm, threads=case.threads,
    )  # fmt: skip
    assert conv(image, out) is out
    for is_unharmed in unharmed:
        is_unharmed()
    assert (around[:ROOM] == 77).all() and (around[-ROOM:] == 77).all(), "wrote beside the output"
    assert expected.dtype == out.dtype
    wrong = out != expected
    assert not wrong.any(), (
        f"{wrong.sum()} of {wrong.size} outputs are wrong, {np.argwhere(wrong)[0]}: "
        f"{out[wrong][0]} instead of {expected[wrong][0]}"
    )


def only_the_best(*given):
    """Instead of `dots_of`: no kernel has another instruction than the target's best."""
    return dots_of(*given)[:1]


def failures(seed: int, indices: range, reference: str) -> Iterator[tuple[int, str]]:
    """Yield (index, what is wrong) of every problem that is computed wrongly."""
    for index in indices:
        case = case_of(seed, index)
        try:
            check(case, reference)
        except Exception as error:  # whatever it is, it is no right result
            yield index, f"{type(error).__name__}: {error}\n  {case}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="index of the first problem")
    parser.add_argument("--isa", help="as WINOGEN_ISA: avx512-vnni, say")
    parser.add_argument("--reference", choices=("numpy", "onnx"), default="numpy")
    parser.add_argument("--shipped", action="store_true", help="compile as for users, not with -Og")
    parser.add_argument("--tiles", action="store_true", help="AMX also where it is not worth it")
    asked = parser.parse_args()
    if asked.isa:
        os.environ["WINOGEN_ISA"] = asked.isa
    os.environ.setdefault("WINOGEN_CALIBRATE", "0")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if not asked.shipped:
        compile_quickly()
    if asked.tiles:
        quantized_planner.dots_of = only_the_best
    begin, wrong = time.perf_counter(), 0
    indices = range(asked.first, asked.first + asked.problems)
    for index, what in failures(asked.seed, indices, asked.reference):
        wrong += 1
        print(f"--seed {asked.seed} --first {index} --problems 1\n  {what}", flush=True)
    rate = asked.problems / (time.perf_counter() - begin)
    print(f"{asked.problems} problems, {wrong} wrong, {rate:.0f} a second")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
