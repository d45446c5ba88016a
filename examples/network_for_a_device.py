"""A network for a device: an ONNX model as a folder of C, compiled and tested by its Makefile.

Run: python examples/network_for_a_device.py

Needs onnx and onnxruntime: pip install '.[onnx]'. `winogen generate tiny.onnx --isa generic
--name tiny -o tiny` writes the same folder.
"""

import subprocess
import sys

import numpy as np

from winogen.network import generate

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError:
    sys.exit("onnx: cannot be imported; install it by pip install '.[onnx]'")


def model() -> onnx.ModelProto:
    """Return a network of two convolutions, from 3 channels to 8 and to 4."""
    random = np.random.default_rng(0)
    filters = {"w": random.standard_normal((8, 3, 3, 3)), "v": random.standard_normal((4, 8, 3, 3))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "bend"),
        helper.make_node("Conv", ["b", "v"], ["y"], "second", pads=[1, 1, 1, 1]),
    ]
    value, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    ends = [value("x", kind, [1, 3, 32, 32])], [value("y", kind, [1, 4, 32, 32])]
    tensors = [numpy_helper.from_array(f.astype("f4"), name) for name, f in filters.items()]
    graph = helper.make_graph(nodes, "tiny", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


onnx.save(model(), "tiny.onnx")
files = generate("tiny.onnx", isa="generic", name="tiny")
files.write("tiny")
print(files)
tested = subprocess.run(["make", "-s", "test"], cwd="tiny", text=True, stdout=-1, check=True)
print(tested.stdout)
