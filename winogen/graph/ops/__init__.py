"""ops: the operators of graphs, each of which says what it is: sizes, folding, its step, its C.

To add one, write its class into one of the files here and name it below.
"""

from winogen.graph.ops.base import ActivationSpec, Operator, Shape, Sizes, Window
from winogen.graph.ops.convolutions import Conv, ConvTranspose, Joined, QConv, Scaled
from winogen.graph.ops.moves import Concat, Pad, Relayout, Repeat, Shuffle, Slice, Spread
from winogen.graph.ops.norms import GroupNorm, LayerNorm, Norm, Softmax
from winogen.graph.ops.numbers import Activation, Add, Affine, Multiply
from winogen.graph.ops.others import Opaque, Plain
from winogen.graph.ops.point import Point
from winogen.graph.ops.pools import AveragePool, GlobalAverage, MaxPool

__all__ = [
    "Activation",
    "ActivationSpec",
    "Add",
    "Affine",
    "AveragePool",
    "Concat",
    "Conv",
    "ConvTranspose",
    "GlobalAverage",
    "GroupNorm",
    "Joined",
    "LayerNorm",
    "MaxPool",
    "Multiply",
    "Norm",
    "Opaque",
    "Operator",
    "Pad",
    "Plain",
    "Point",
    "QConv",
    "Relayout",
    "Repeat",
    "Scaled",
    "Shape",
    "Shuffle",
    "Sizes",
    "Slice",
    "Softmax",
    "Spread",
    "Window",
]
