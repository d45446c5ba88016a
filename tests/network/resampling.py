"""What steps of a Resize compute, by numpy: the loops as they are, without any C."""

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from winogen.network.loops import Bilinear, Move, Operand
from winogen.network.resizing import resized
from winogen.onnx.model import Model


def model_of(shape, opset, *, roi=None, scales=None, sizes=None, kind="Resize", **attributes):
    """A model of one Resize."""
    given = {"roi": (roi, np.float32), "scales": (scales, np.float32), "sizes": (sizes, np.int64)}
    if opset < 11:
        given = {"scales": given["scales"]}
    names, constants = ["x"], []
    for name, (values, kind_of) in given.items():
        names.append("" if values is None else name)
        if values is not None:
            constants.append(numpy_helper.from_array(np.asarray(values, kind_of), name))
    while not names[-1]:
        names.pop()
    node = helper.make_node(kind, names, ["y"], name="resize", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))
    graph = helper.make_graph([node], "resize", [x], [y], constants)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def by_onnxruntime(proto, x):
    return ort.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]


def by_loops(proto, x):
    """The same by the steps that a network would run."""
    model = Model(proto)
    shape = tuple(size.number for size in model.sizes["y"])
    operand = Operand(x.shape, "x")
    for make in resized(model, proto.graph.node[0], operand, shape):
        loops = make(operand)
        y = np.full(loops.shape, np.nan if loops.fill is None else loops.fill)
        y = y.astype(np.float32)
        if isinstance(loops, Move):
            (piece,) = loops.pieces
            y[_chosen(piece.target)] = x[_chosen(piece.origin)]
        elif isinstance(loops, Bilinear):
            sums = _between(x, loops)
            box = zip(loops.begin, sums.shape)
            y[tuple(slice(begin, begin + count) for begin, count in box)] = sums
        else:
            taken = np.moveaxis(x, loops.axis, -1)[..., loops.places]
            sums = np.moveaxis((taken * loops.weights).sum(-1), -1, loops.axis)
            box = zip(loops.begin, sums.shape)
            y[tuple(slice(begin, begin + count) for begin, count in box)] = sums
        x = y
        operand = Operand(x.shape, "x")
    return x


def _between(x, loops):
    """In float32, in the order of the C."""
    (top, bottom), (left, right) = (one.places.T for one in (loops.rows, loops.columns))
    upper, lower = (one[:, None] for one in loops.rows.shares.T)
    before, behind = loops.columns.shares.T
    above, below = x[:, :, top], x[:, :, bottom]
    sums = before * upper * above[..., left] + behind * upper * above[..., right]
    return sums + before * lower * below[..., left] + behind * lower * below[..., right]


def _chosen(loops):
    places = [
        one.start + np.arange(one.turns) * one.step if one.table is None else np.array(one.table)
        for one in loops
    ]
    return np.ix_(*places)
