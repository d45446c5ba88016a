"""Random small graphs of every operator, with integers that no kernel rounds."""

import numpy as np
from hypothesis import strategies as st

from winogen.graph import (
    Activation,
    Add,
    Affine,
    Concat,
    Conv,
    Graph,
    MaxPool,
    Node,
    Pad,
    Repeat,
    Shuffle,
    Slice,
    Spread,
)

SIZE = 5  # height; the width is one larger
CHANNELS = (1, 3, 4)


def conv(rng, channels, filters, kernel=3, padding=None, **options):
    """A convolution that keeps the size, with small integers for weights."""
    groups = options.get("groups", 1)
    weight = rng.integers(-1, 2, (filters, channels // groups, kernel, kernel))
    pad = kernel // 2 if padding is None else padding
    return Conv(
        weight.astype(np.float32),
        rng.integers(-2, 3, filters).astype(np.float32) if options.pop("bias", True) else None,
        padding=(pad,) * 4,
        **options,
    )


@st.composite
def graphs(draw, most=7):
    """A graph whose maps have all one size, but for those between two that change it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    inputs = [f"x{i}" for i in range(draw(st.integers(1, 2)))]
    channels = {name: draw(st.sampled_from(CHANNELS)) for name in inputs}
    nodes = []
    recent = st.integers(1, 3)

    def pick(among):
        among = list(among)
        return among[-min(draw(recent), len(among))]

    def emit(op, reads, count):
        name = f"v{len(nodes)}"
        nodes.append(Node(op, tuple(reads), (name,)))
        channels[name] = count
        return name

    padded = set()
    kinds = "conv conv affine activation add add concat pad depthwise slice halves".split()
    kinds += "pool dilated shuffle repeat spread".split()
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(kinds))
        x = pick(name for name in channels if name not in padded)
        count = channels[x]
        if kind == "conv":
            filters = draw(st.sampled_from(CHANNELS))
            emit(conv(rng, count, filters, draw(st.sampled_from((1, 3)))), [x], filters)
        elif kind == "depthwise":
            emit(conv(rng, count, count, groups=count, bias=False), [x], count)
        elif kind == "affine":
            scale, shift = rng.integers(-1, 3, (2, count)).astype(np.float32)
            emit(Affine(scale, shift), [x], count)
        elif kind == "activation":
            emit(Activation(draw(st.sampled_from(("relu", ("leaky_relu", 2.0))))), [x], count)
        elif kind == "add":
            y = pick(n for n, c in channels.items() if c == count and n not in padded)
            emit(Add(), [x, y], count)
        elif kind == "concat":
            parts = [x, *(pick(n for n in channels if n not in padded) for _ in "ab")]
            parts = parts[: draw(st.integers(2, 3))]
            emit(Concat(), parts, sum(channels[name] for name in parts))
        elif kind == "slice":
            start = draw(st.integers(0, count - 1))
            emit(Slice(start, count), [x], count - start)
        elif kind == "halves" and count > 1:
            half = emit(Slice(0, count // 2), [x], count // 2)
            rest = emit(Slice(count // 2, count), [x], count - count // 2)
            parts = [half, rest, pick((half, rest, x))]
            emit(Concat(), parts, sum(channels[part] for part in parts))
        elif kind == "pool":
            emit(MaxPool((3, 2), (1, 1), (1, 1, 1, 0)), [x], count)
        elif kind == "dilated":
            emit(MaxPool((3, 2), (1, 1), (2, 2, 1, 1), (2, 2)), [x], count)
        elif kind == "shuffle":
            emit(Shuffle(2 - count % 2), [x], count)
        elif kind == "repeat":
            y = emit(Repeat((2, 3)), [x], count)
            padded.add(y)
            emit(MaxPool((2, 3), (2, 3)), [y], count)
        elif kind == "spread":
            wide = emit(conv(rng, count, 6 * count, 1), [x], 6 * count)
            y = emit(Spread((3, 2), draw(st.sampled_from(("channels", "pixels")))), [wide], count)
            padded |= {wide, y}
            emit(MaxPool((4, 2), (3, 2), (0, 1, 0, 0)), [y], count)
        elif kind == "pad":
            mode = draw(st.sampled_from(("zeros", "reflect", "replicate", "circular")))
            y = emit(Pad((1, 1, 1, 1), mode), [x], count)
            padded.add(y)
            filters = draw(st.sampled_from(CHANNELS))
            emit(conv(rng, count, filters, 3, 0), [y], filters)
    made = [node.output for node in nodes if node.output not in padded]
    used = {name for node in nodes for name in node.inputs}
    outputs = [name for name in made if name not in used]
    extra = draw(st.lists(st.sampled_from([*inputs, *made]), max_size=2))
    outputs = list(dict.fromkeys([*outputs, *extra]))
    batch = draw(st.integers(1, 2))
    arrays = [
        rng.integers(-2, 3, (batch, channels[name], SIZE, SIZE + 1)).astype(np.int64)
        for name in inputs
    ]
    return Graph(inputs, nodes, outputs), arrays
