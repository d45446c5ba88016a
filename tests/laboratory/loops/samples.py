"""Small ragged layers with integers in them, and nests drawn at random for them."""

from dataclasses import replace
from functools import lru_cache
from random import Random

import numpy as np
from conv.reference import convolve as exact

from winogen.records import TARGETS
from winogen_lab.loops import rules
from winogen_lab.loops.parameters import DIMS, STREAMS, UNROLLS, LoopProblem, Parameters, Prefetch

# Machines that nobody has, with vectors of 16 and 32 bytes: every micro-kernel runs on one of them.
BY_LANE = replace(TARGETS["generic"], by_lane=True, registers=32)
WIDE = replace(TARGETS["generic"], vector_bytes=32, flags=("-Wno-psabi",))
TOGETHER = (BY_LANE, WIDE)


def target_of(strategy):
    """The narrowest of them that a micro-kernel makes sense on."""
    return next(target for target in TOGETHER if strategy in rules.strategies(target))


# The layer of the source: five channels, seven filters, 6 x 9 pixels, a kernel of 3 x 2.
PADDED = dict(channels=5, filters=7, size=(6, 9), kernel=(3, 2), padding=(1, 1, 1, 0))
LAYERS = (
    PADDED,
    dict(channels=4, filters=8, size=(7, 10), kernel=(3, 3), padding=(2, 1, 0, 3), stride=(2, 2)),
    dict(channels=6, filters=10, size=(9, 8), kernel=(2, 3), dilation=(2, 3), groups=2,
         padding=(1, 2, 3, 3)),
    dict(channels=9, filters=5, size=(4, 13), kernel=(1, 1)),
    dict(channels=3, filters=6, size=(5, 6), kernel=(1, 1), padding=(1, 2, 2, 1), stride=(1, 2)),
    dict(channels=2, filters=3, size=(6, 7), kernel=(3, 3), padding=(2, 2, 2, 2),
         padding_mode="reflect"),
    dict(channels=1, filters=9, size=(5, 21), kernel=(1, 4), padding=(0, 0, 2, 2)),
)  # fmt: skip


def problem(layout, layer, **types):
    """One group of a layer as nests see it; its arrays are those of all groups."""
    return replace(LoopProblem.of(layout, **layer), **types)


@lru_cache(maxsize=64)
def _data(layout, key):
    layer = dict(key)
    rng = np.random.default_rng(len(key))
    groups = layer.get("groups", 1)
    x = rng.integers(-9, 10, (1, layer["channels"], *layer["size"]))
    w = rng.integers(-9, 10, (layer["filters"], layer["channels"] // groups, *layer["kernel"]))
    bias = rng.integers(-9, 10, layer["filters"])
    x = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    top, bottom, left, right = layer.get("padding", (0, 0, 0, 0))
    options = {name: layer[name] for name in ("stride", "dilation", "groups", "padding_mode")
               if name in layer}  # fmt: skip
    y = exact(x, w, bias, padding=((top, bottom), (left, right)), layout=layout, **options)
    return x, w, bias, y


def data(layout, layer):
    """Input, weight, bias and output of a layer, all of them integers."""
    return _data(layout, tuple(layer.items()))


def draw(rng: Random, problem, strategy, target, blocked=0.3):
    """A legal nest of a micro-kernel, drawn choice by choice; ``blocked``: how many dims are."""
    lanes = target.lanes(problem.dtype)
    image = rng.choice(rules.image_layouts(problem, strategy))
    copies = rng.choice(rules.copies(problem, image, strategy))
    rows = rng.choice(rules.rows(problem, strategy, copies)[:3])
    small = [block for block in rules.register_blocks(strategy, lanes, target.registers, rows,
             problem.kernel) if max(block) <= 4]  # fmt: skip
    pixels, filters = rng.choice(small)
    nest = Parameters(
        strategy,
        image,
        rng.choice(rules.kernel_layouts(strategy)),
        rng.choice(rules.output_layouts(strategy)),
        (),
        copies=copies,
        pixels=pixels,
        filters=filters,
        rows=rows,
        dtype=problem.dtype,
    )
    if len(ways := rules.widened(problem, strategy, nest.kernel)) > 1:
        nest = replace(nest, widened=rng.choice(ways))
    blocks = []
    for dim in [dim for dim in DIMS if dim not in nest.kind.resident]:
        sizes = rules.block_sizes(problem, nest.step(dim, lanes), dim)
        if sizes and rng.random() < blocked:
            blocks.append((dim, rng.choice(sizes)))
    names, order = rules.loops(strategy, [dim for dim, _ in blocks]), []
    while len(order) < len(names):
        order.append(rng.choice([one for one in names if rules.may_follow(order, one, names)]))
    unroll = [(loop, rng.choice(UNROLLS)) for loop in rules.unrollable(strategy, order)
              if rng.random() < 0.2]  # fmt: skip
    ahead = Prefetch(STREAMS, 256, rng.choice((1, 2))) if rng.random() < 0.2 else None
    return replace(nest, order=tuple(order), blocks=tuple(blocks), unroll=tuple(unroll),
                   prefetch=ahead)  # fmt: skip


def simple_orders(problem, strategy):
    """Every order of the loops without blocks, as nests that are alike otherwise."""
    target = target_of(strategy)
    lanes = target.lanes(problem.dtype)
    small = [block for block in rules.register_blocks(strategy, lanes, target.registers, 1,
             problem.kernel) if max(block) <= 2]  # fmt: skip
    image = rules.image_layouts(problem, strategy)
    image = problem.image_layout if problem.image_layout in image else image[0]
    for place, order in enumerate(rules.orders(rules.loops(strategy, ()))):
        ways = rules.copies(problem, image, strategy)
        outputs = rules.output_layouts(strategy)
        kernels = rules.kernel_layouts(strategy)
        yield Parameters(
            strategy, image, kernels[place % len(kernels)], outputs[place % len(outputs)], order,
            copies=ways[place % len(ways)], pixels=small[-1][0], filters=small[-1][1],
        )  # fmt: skip
