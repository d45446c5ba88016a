"""How far the outputs of a model move when its constants are off by as much as rounding is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.onnx.loading import first_line, require, session_of
from winogen.onnx.model import copied

# Which inputs of an operator rounding is seen at: weights, and steps between codes.
_WEIGHED = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (0, 1, 2),
    "MatMul": (0, 1),
    "QuantizeLinear": (1,),
    "DequantizeLinear": (1,),
    "QLinearConv": (1, 4, 6),
    "QLinearMatMul": (1, 4, 6),
    "BatchNormalization": (1, 2, 3),
}


def outputs_of(proto: Any, names: Sequence[str], feed: Mapping[str, Any], **options: Any) -> Any:
    """Return outputs of a model as onnxruntime computes them; raises InvalidValue if it does not.

    ``options``: of `winogen.onnx.loading.new_session`.
    """
    session = session_of(proto, **options)
    try:
        return session.run(list(names), dict(feed))
    except Exception as problem:  # onnxruntime's own kinds of errors
        raise InvalidValue(
            f"model: onnxruntime does not run it ({first_line(problem)})"
        ) from problem


def moved(
    proto: Any,
    names: Sequence[str],
    feed: Mapping[str, Any],
    relative: float,
    draws: int,
    optimized: bool = False,
) -> Iterator[list[Any]]:
    """Yield the outputs when weights, steps and inputs of float32 are off by about ``relative``.

    ``optimized``: by onnxruntime. Raises InvalidValue as `outputs_of` does.
    """
    random = np.random.default_rng(2)

    def off(array: Any) -> Any:
        if array.dtype != np.float32:
            return array
        factor = 1 + relative * random.choice([-1.0, 1.0], array.shape)
        return (array * factor.astype(np.float64)).astype(np.float32)

    for _ in range(draws):
        changed = _changed(proto, off)
        with np.errstate(all="ignore"):
            inputs = {name: off(np.asarray(x)) for name, x in feed.items()}
            yield outputs_of(changed, names, inputs, optimized=optimized)


def _changed(proto: Any, off: Any) -> Any:
    """A copy of a model whose weights went through ``off``."""
    numpy_helper, changed = require("onnx").numpy_helper, copied(proto)
    weighed = {
        node.input[place]
        for node in proto.graph.node
        for place in _WEIGHED.get(node.op_type, ())
        if place < len(node.input)
    }
    tensors = [tensor for tensor in changed.graph.initializer if tensor.name in weighed]
    for node in changed.graph.node:
        if node.op_type == "Constant" and node.output[0] in weighed:
            tensors += [one.t for one in node.attribute if one.name == "value"]
    for tensor in tensors:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(off(array), tensor.name))
    return changed
