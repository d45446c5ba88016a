"""Calls of convolutions of bytes for `sanitized.c`."""

from dataclasses import replace
from itertools import product

from codegen import sanitized
from codegen.sanitized import calls_of

from winogen.kernels.quantized import (
    ALGORITHMS,
    QuantizedSpec,
    QuantizedWork,
    Reals,
    RealsSpec,
)
from winogen.kernels.quantized_depthwise import DepthwiseWork
from winogen.records import Epilogue, Machine

# What sums go through: an activation that is as exact in C, and a sum of two.
REALS = Reals(Epilogue("relu", (), add=True), 0.25, 0.0625, -9, add_signed=True)
# Sums are bytes that nothing scales: one layout of each algorithm will do.
KINDS = (*product(ALGORITHMS, ("NCHW", "NHWC"), (False,)),
         ("direct", "NHWC", True), ("im2col", "NCHW", True),
         ("depthwise", "NCHW", False), ("depthwise", "NHWC", False))  # fmt: skip


def kinds(target, dot):
    """One kernel of each kind for a target with the extensions that ``dot`` needs."""
    extensions = frozenset(dot.extensions)
    for algorithm, layout, sums in KINDS:
        capable = replace(target, extensions=extensions)
        yield QuantizedSpec.of(algorithm, layout, sums, capable)
        if not sums and algorithm != "im2col":
            yield RealsSpec.of(algorithm, layout, sums, capable)


def works(spec):
    """Layers of all kinds of rests, paddings and cuts."""
    sizes = ((1, 1), (5, 6), (9, 3), (4, 17))
    kernels = (((1, 1), (1, 1), (1, 1)), ((3, 3), (1, 1), (1, 1)), ((2, 3), (2, 2), (1, 1)),
               ((1, 1), (2, 3), (1, 1)), ((3, 2), (1, 3), (2, 1)), ((3, 3), (1, 1), (1, 2))
               )  # fmt: skip
    counts = ((1, 1, 1), (1, 3, 17), (2, 5, 3), (1, 70, 34), (3, 1, 1))
    for index, (size, (kernel, stride, dilation)) in enumerate(product(sizes, kernels)):
        groups, channels, filters = counts[index % len(counts)]
        kind = QuantizedWork
        if spec.algorithm == "depthwise":
            groups, channels, filters, kind = 1, 1, max(groups * filters, channels), DepthwiseWork
        padding = index % 3, (index + 1) % 4
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
        around = groups * channels, groups * filters
        if kind is DepthwiseWork:
            around = filters, filters
        yield kind(
            spec,
            batch=1 + index % 2,
            groups=groups,
            channels=channels,
            filters=filters,
            size=size,
            output_size=tuple(
                (n + pad + 3 - r) // s + 1 for n, pad, r, s in zip(size, padding, reach, stride)
            ),
            kernel=kernel,
            stride=stride,
            dilation=dilation,
            padding=padding,
            around=tuple(count + index % 3 for count in around),
            signed_input=index % 2 == 1,
            x_zero=(7, -100, 255, 0)[index % 4] if index % 2 == 0 else -100 + index,
            y_zero=index,
            limits=(-(1 << 31), (1 << 31) - 1) if spec.sums else (index % 5, 255),
            w_zeros=index % 3 == 0,
            threads=1 + index % 3,
            reals=REALS,
            machine=Machine(l2_bytes=(1 << 20, 1 << 11)[index % 2]),
        )


def layers_of(spec):
    """The layers of `works` whose zero point the input can hold."""
    for work in works(spec):
        least, most = (-128, 127) if work.signed_input else (0, 255)
        yield replace(work, x_zero=min(max(work.x_zero, least), most))


def check(folder, spec, **options):
    """Compile a kernel of bytes with the driver, and run it on layers of all kinds.

    Returns how many calls were right.
    """
    cut = list(layers_of(spec))
    if spec.algorithm != "depthwise":
        assert max(work.shares for work in cut) > 1
        assert max(work.grid[0] for work in cut) > 1 and max(work.grid[1] for work in cut) > 1
    known = [
        f"typedef {'int32_t' if spec.sums else 'uint8_t'} output;",
        "typedef float real;",
        f"enum {{ DEPTHWISE = {int(spec.algorithm == 'depthwise')} }};",
        f"#define REALS {int(spec.in_reals)}",
        "typedef struct { int is_signed, x_zero; } layer;",
        "static const layer layers[] = {",
        *(f"    {{ {int(work.signed_input)}, {work.x_zero} }}," for work in cut),
        "};",
    ]
    sanitized.check(folder, "quantized", spec, calls_of(spec, cut), known, fill=0x5A, **options)
    return len(cut)
