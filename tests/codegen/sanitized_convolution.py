"""Calls of convolutions for `sanitized.c`, with the layers as their users see them."""

from dataclasses import replace
from fractions import Fraction
from math import lcm, prod

from codegen import sanitized
from codegen.sanitized import calls_of, initialiser

from winogen.codegen.transforms import load
from winogen.kernels.spec import KernelSpec
from winogen.records import ACTIVATIONS, NUMBERS

# Bits of the fraction, of arrays that hold narrower numbers than are computed with.
FRACTIONS = {"float16": 10, "bfloat16": 7}
# Points by whose transforms integers stay integers, by how many there are.
POINTS = {2: "0,inf", 3: "0,1,inf", 4: "0,1,-1,inf", 5: "0,1,-1,2,inf", 6: "0,1,-1,2,-2,inf"}


def unit(spec):
    """The least integer that clears all denominators of a kernel's filter transforms."""
    along = [transform for transform in spec.transforms if transform]
    return prod(lcm(*(Fraction(x).denominator for row in t.g for x in row)) for t in along)


def exactly(work):
    """The same call by points that leave integers whole."""
    along = (load(t.m, t.r, POINTS[t.n]) if t and t.n > 1 else t for t in work.transforms)
    return replace(work, transforms=tuple(along))


def check(folder, works, exact=False, **options):
    """Compile the kernel of the layers with the driver, and run it.

    ``exact``: filters are such that nothing on the way is rounded, and the result is an integer.
    """
    spec, sizes = KernelSpec.of(works[0]), []
    for index, work in enumerate(works):
        # What the user sees: a kernel may take groups of a depthwise layer as one.
        seen = spec.entry.view(replace(work, groups=48, channels=1, filters=1))
        multiplier = work.filters // work.channels
        groups = work.groups * work.channels // work.merged
        counts = (groups, work.merged, work.merged * multiplier) if seen.groups < 48 else (
            work.groups, work.channels, work.filters)  # fmt: skip
        # A filter may be larger than what is computed of it: some taps only ever see zeros.
        taps = (work.filter_taps, work.filter_row, work.first_tap)
        sizes.append((*counts, *taps, int(index % 3 > 0), int(index % 4 > 0)))
    # Of sums of some hundred products of small integers; rounded tiles are further off.
    root = "({} * sqrt((double)terms))"
    tiles = {"int16": 0.25, "int8": root.format(4), "float16": root.format(0.2)}
    rounded = tiles if any(spec.transforms) else {}
    number = NUMBERS[spec.precision.arrays]
    tolerance = 1e-9 if exact else rounded.get(spec.precision.products, 0.02)
    known = [
        f"typedef {spec.precision.real.c} real;",
        f"#define TOLERANCE {tolerance}",
        f"#define UNIT {unit(spec) if exact else 1}",
        f"#define FRACTION {FRACTIONS.get(spec.precision.arrays, 0)}",
        f"#define FLYTE {number.itemsize * bool(number.wide)}",
        f"#define ROUNDING {2.0 ** (number.cut - number.bits) * spec.precision.narrow}",
        f"#define DILATED {dict(spec.fixed).get('dilated', 0)}",
        f"#define SPREAD {dict(spec.fixed).get('spread', 0)}",
        "enum {",
        *(f"    {name.upper()} = {one.code}," for name, one in ACTIVATIONS.items()),
        "};",
        "typedef struct {",
        "    int64_t groups, channels, filters;    /* of a group: C and M */",
        "    int64_t filter_taps, filter_row, first_tap;",
        "    int has_bias, is_aligned;",
        "} layer_sizes;",
        "static const layer_sizes sizes[] = {",
        *(f"    {initialiser(one)}," for one in sizes),
        "};",
    ]
    sanitized.check(folder, "convolution", spec, calls_of(spec, works), known, **options)
