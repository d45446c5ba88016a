"""The C of Fourier transforms of tiles: no warnings, and nothing that C leaves undefined."""

from itertools import product

import pytest
from codegen.sanitized import EMITTABLE, OPENMP, VECTORS, WARNINGS, calls_of, check, compile_c
from kernels.turns import turns

from winogen.codegen.render import render
from winogen.kernels.fourier import FourierSpec, FourierWork, frequencies
from winogen.records import Precision, Strides

TYPES = ("float32", "float64", "uint8", "uint16")
LENGTHS = ((12, 32), (64, 16), (1, 96))  # all radices, and rows alone
KERNEL, IMAGE = (5, 4), (9, 40)


def spec_of(dtype, target, lengths):
    precision = Precision.of(dtype)
    stored = (number.name for number in precision.stored)
    return FourierSpec(precision, target.storing(*stored), lengths)


@pytest.mark.parametrize("target", EMITTABLE, ids=lambda target: target.name)
def test_no_kernel_makes_a_warning(target, tmp_path):
    names = []
    for dtype, lengths in product(TYPES, LENGTHS):
        names.append(f"{dtype}_{lengths[0]}.c")
        (tmp_path / names[-1]).write_text(render(spec_of(dtype, target, lengths)))
    compile_c(tmp_path, *WARNINGS, *OPENMP, "-fsyntax-only", *target.flags, *names)


def works(spec, kernel):
    """Layers of few and of many tiles, in both layouts, alone and between other channels."""
    sizes = ((1, 1), (7, 30), (20, 90))
    for index, (size, channels) in enumerate(product(sizes, (1, 3))):
        layout = ("NCHW", "NHWC")[index % 2]
        yield FourierWork(
            spec,
            batch=1 + index % 2,
            channels=channels,
            output_size=size,
            step=tuple(length - taps + 1 for length, taps in zip(spec.lengths, kernel)),
            input=Strides.of(layout, channels + index % 3, *IMAGE),
            output=Strides.of(layout, channels, *size),
            threads=1 + index % 2,
        )


@pytest.mark.parametrize("lanes, lengths", turns(VECTORS, LENGTHS))
def test_no_kernel_leaves_its_arrays_or_the_language(lanes, lengths, tmp_path):
    dtype, target = VECTORS[lanes][LENGTHS.index(lengths) % len(VECTORS[lanes])]
    spec, kernel = spec_of(dtype, target, lengths), KERNEL
    if lengths[0] == 1:
        kernel = 1, KERNEL[1]
    height, width = (", ".join(map(str, frequencies(length))) for length in lengths)
    known = [
        f"typedef {spec.precision.real.c} real;",
        f"enum {{ KERNEL_H = {kernel[0]}, KERNEL_W = {kernel[1]} }};",
        f"enum {{ LENGTH_H = {lengths[0]}, LENGTH_W = {lengths[1]} }};",
        f"enum {{ HEIGHT_IN = {IMAGE[0]}, WIDTH_IN = {IMAGE[1]} }};",
        f"static const int64_t height_order[] = {{ {height} }};",
        f"static const int64_t width_order[] = {{ {width} }};",
    ]
    check(tmp_path, "fourier", spec, calls_of(spec, works(spec, kernel)), known)
