"""ops: the operators of graphs, each of which says what it is: sizes, folding, its step, its C.

To add one, write its class into one of the files here and name it below.
"""

from winogen.graph.ops.base import ActivationSpec, Operator, Shape, Sizes, Window
from winogen.graph.ops.chosen import Enlarge, Nearest
from winogen.graph.ops.code_ends import Dequantize, Quantize, Recast, ScaleSums
from winogen.graph.ops.convolutions import Conv, ConvTranspose, Joined, Scaled
from winogen.graph.ops.moves import Concat, History, Pad, Relayout, Repeat, Shuffle, Slice, Spread
from winogen.graph.ops.norms import GroupNorm, LayerNorm, Norm, Softmax
from winogen.graph.ops.numbers import Activation, Add, Affine, Multiply
from winogen.graph.ops.others import Opaque, Plain
from winogen.graph.ops.point import Point
from winogen.graph.ops.pools import AveragePool, GlobalAverage, MaxPool
from winogen.graph.ops.quantized import (
    Codes,
    Lookup,
    QAdd,
    QConv,
    QGlobalMean,
    QMean,
)

__all__ = [
    "Activation",
    "ActivationSpec",
    "Add",
    "Affine",
    "AveragePool",
    "Codes",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Dequantize",
    "Enlarge",
    "GlobalAverage",
    "GroupNorm",
    "History",
    "Joined",
    "LayerNorm",
    "Lookup",
    "MaxPool",
    "Multiply",
    "Nearest",
    "Norm",
    "Opaque",
    "Operator",
    "Pad",
    "Plain",
    "Point",
    "QAdd",
    "QConv",
    "QGlobalMean",
    "QMean",
    "Quantize",
    "Recast",
    "Relayout",
    "Repeat",
    "ScaleSums",
    "Scaled",
    "Shape",
    "Shuffle",
    "Sizes",
    "Slice",
    "Softmax",
    "Spread",
    "Window",
]
