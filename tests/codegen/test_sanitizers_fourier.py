"""The C of Fourier transforms of tiles: no warnings, and nothing that C leaves undefined."""

from itertools import product

import pytest
from codegen.sanitized import EMITTABLE, VECTORS, calls_of, check, no_warning
from kernels.turns import turns

from winogen.codegen.render import render
from winogen.kernels.fourier import FourierSpec, FourierWork, frequencies
from winogen.records import Precision, Strides

TYPES = ("float32", "float64", "uint8", "uint16")
LENGTHS = ((12, 32), (64, 16), (1, 96))  # all radices, and rows alone
LANES = (("NCHW", False), ("NHWC", False), ("NCHW", True), ("NHWC", True))
KERNEL, IMAGE = (5, 4), (9, 40)


def spec_of(dtype, target, lengths, *lanes):
    precision = Precision.of(dtype)
    stored = (number.name for number in precision.stored)
    return FourierSpec(precision, target.storing(*stored), lengths, *lanes)


@pytest.mark.parametrize("target", EMITTABLE, ids=lambda target: target.name)
def test_no_kernel_makes_a_warning(target, tmp_path):
    texts = {}
    for index, (dtype, lanes) in enumerate(product(TYPES, LANES)):
        spec = spec_of(dtype, target, LENGTHS[index % 3], *lanes)
        texts[f"{index}.c"] = render(spec)
    no_warning(tmp_path, texts, target)


def works(spec, kernel):
    """Layers of few and of many tiles and channels, alone and between other channels."""
    sizes, layout = ((1, 1), (7, 30), (20, 90)), spec.layout
    for index, (size, channels) in enumerate(product(sizes, (1, 3, 17))):
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


@pytest.mark.parametrize("lanes, hold", turns(VECTORS, LANES))
def test_no_kernel_leaves_its_arrays_or_the_language(lanes, hold, tmp_path):
    index = LANES.index(hold)
    dtype, target = VECTORS[lanes][index % len(VECTORS[lanes])]
    lengths = LENGTHS[(index + lanes) % 3]
    spec, kernel = spec_of(dtype, target, lengths, *hold), KERNEL
    if lengths[0] == 1:
        kernel = 1, KERNEL[1]
    height, width = (", ".join(map(str, frequencies(length))) for length in lengths)
    known = [
        f"typedef {spec.precision.real.c} real;",
        f"enum {{ KERNEL_H = {kernel[0]}, KERNEL_W = {kernel[1]} }};",
        f"enum {{ LENGTH_H = {lengths[0]}, LENGTH_W = {lengths[1]} }};",
        f"enum {{ TOGETHER = {lanes if spec.channels else 1} }};",
        f"enum {{ HEIGHT_IN = {IMAGE[0]}, WIDTH_IN = {IMAGE[1]} }};",
        f"static const int64_t height_order[] = {{ {height} }};",
        f"static const int64_t width_order[] = {{ {width} }};",
    ]
    check(tmp_path, "fourier", spec, calls_of(spec, works(spec, kernel)), known)
