"""graph: networks of convolutions with what lies between them, run segment by segment.

A framework's reader makes a `Graph`; `simplify` folds and fuses; `cut` finds the segments;
`Segment` runs one as one call. Nothing here knows a framework.
"""

from winogen.graph.cut import Piece, cut
from winogen.graph.ir import Graph, Node
from winogen.graph.ops import (
    Activation,
    Add,
    Affine,
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    GlobalAverage,
    GroupNorm,
    LayerNorm,
    MaxPool,
    Multiply,
    Opaque,
    Pad,
    QConv,
    Repeat,
    Shuffle,
    Slice,
    Softmax,
    Spread,
)
from winogen.graph.planning import faster_layout
from winogen.graph.segment import Segment
from winogen.graph.shapes import shapes
from winogen.graph.simplify import simplify

__all__ = [
    "Activation",
    "Add",
    "Affine",
    "AveragePool",
    "Concat",
    "Conv",
    "ConvTranspose",
    "GlobalAverage",
    "Graph",
    "GroupNorm",
    "LayerNorm",
    "MaxPool",
    "Multiply",
    "Node",
    "Opaque",
    "Pad",
    "Piece",
    "QConv",
    "Repeat",
    "Segment",
    "Shuffle",
    "Slice",
    "Softmax",
    "Spread",
    "cut",
    "faster_layout",
    "shapes",
    "simplify",
]


def __dir__() -> list[str]:
    return __all__
