"""Models that are wrong or odd in one way each: most of them no model, some of them one."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(0)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def value(name, kind=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def node(kind, inputs, outputs=("y",), **attributes):
    return helper.make_node(kind, inputs, outputs, **attributes)


def model(nodes, constants, shape=(1, 3, 9, 9), *, inputs=None, output=None, opsets=None, ir=8):
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    inputs = [value("x", shape=shape)] if inputs is None else inputs
    graph = helper.make_graph(nodes, "odd", inputs, [output or value("y")], tensors)
    opsets = [("", 17)] if opsets is None else opsets
    opsets = [helper.make_opsetid(*one) for one in opsets]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


WEIGHT = numbers(4, 3, 3, 3)
CONV = ("Conv", ["x", "w"])


def of_weights():
    """Shapes and types of weights and biases, and what attributes say of them."""
    for shape in ((), (4,), (4, 3, 3), (4, 3, 3, 3, 3), (4, 5, 3, 3), (0, 3, 3, 3), (4, 3, 0, 3)):
        yield f"weights {shape}", model([node(*CONV)], {"w": numbers(*shape)})
    for kind in ("float64", "float16", "int64", "uint8", "bool"):
        yield f"weights of {kind}", model([node(*CONV)], {"w": WEIGHT.astype(kind)})
    for shape in ((3,), (4, 1), (1, 4), (5,), (0,), ()):
        constants = {"w": WEIGHT, "b": numbers(*shape)}
        yield f"bias {shape}", model([node("Conv", ["x", "w", "b"])], constants)
    attributes = {
        "kernel_shape": ([2, 2], [3]),
        "strides": ([2], [0, 1], [-1, 1], [2, 2, 2], [2**40, 1], 1, "ab"),
        "dilations": ([-1, 1], [0, 0], [5, 5], [2**33, 1]),
        "pads": ([1, 1], [-1, 0, 0, 0], [2**40] * 4, [0.5] * 4),
        "group": (2, 0, -1, 3, 1.5),
        "auto_pad": ("SAME", "same_upper"),
        "unknown": (3,),
    }
    for name, some in attributes.items():
        for given in some:
            made = model([node(*CONV, **{name: given})], {"w": WEIGHT})
            yield f"{name}={given}", made
            weight = {"w": numbers(3, 4, 3, 3)}
            made = model([node("ConvTranspose", ["x", "w"], **{name: given})], weight)
            yield f"transposed {name}={given}", made


def of_values():
    """Names, types and sizes of values."""
    for kind in (TensorProto.FLOAT16, TensorProto.INT32, TensorProto.STRING, 0, 99):
        inputs = [value("x", kind, (1, 3, 9, 9))]
        yield f"input of type {kind}", model([node(*CONV)], {"w": WEIGHT}, inputs=inputs)
    for shape in (None, (), (3,), (1, 3, 9), (1, 4, 9, 9), (0, 3, 9, 9), (1, 3, 2, 2), (-1,) * 4):
        yield f"input {shape}", model([node(*CONV)], {"w": WEIGHT}, shape)
    for shape in ((1, 4, 9, 9), (4,), ("a", "b")):
        yield f"output {shape}", model([node(*CONV)], {"w": WEIGHT}, output=value("y", 1, shape))
    for kind in (0, 7, 11):
        yield f"output of type {kind}", model([node(*CONV)], {"w": WEIGHT}, output=value("y", kind))
    yield "no input", model([node(*CONV)], {"w": WEIGHT}, inputs=[])
    yield "no weights", model([node(*CONV)], {})
    yield "no nodes", model([], {})
    for inputs in ([], ["x"], ["", "w"], ["x", ""], ["x", "w", "w", "w", "w"]):
        yield f"Conv of {inputs}", model([node("Conv", inputs)], {"w": WEIGHT})
    for outputs in ([], [""], ["y", "z"]):
        yield f"Conv to {outputs}", model([node(*CONV, outputs)], {"w": WEIGHT})
    chains = {
        "an input that a node makes": [node("Relu", ["x"], ["x"]), node(*CONV)],
        "weights that a node makes": [node("Relu", ["x"], ["w"]), node(*CONV)],
        "a value made twice": [
            node("Relu", ["x"], ["h"]), node("Tanh", ["x"], ["h"]), node("Conv", ["h", "w"])
        ],
        "a cycle": [node("Add", ["x", "y"], ["h"]), node("Conv", ["h", "w"], pads=[1] * 4)],
        "another order": [node("Relu", ["h"]), node("Conv", ["x", "w"], ["h"])],
        "an unknown operator": [node("Foo", ["x"], ["h"]), node("Conv", ["h", "w"])],
        "an unknown domain": [node("Conv", ["x", "w"], domain="foo")],
        "names of nodes twice": [
            node("Conv", ["x", "w"], ["h"], name="a"), node("Relu", ["h"], name="a")
        ],
    }  # fmt: skip
    for name, nodes in chains.items():
        yield name, model(nodes, {"w": WEIGHT})
    for what in ("input", "output", "initializer"):
        made = model([node(*CONV)], {"w": WEIGHT})
        getattr(made.graph, what).append(getattr(made.graph, what)[0])
        yield f"an {what} twice", made
    made = model([node(*CONV)], {"w": WEIGHT})
    del made.graph.output[:]
    yield "no output", made


def of_tensors():
    """What stands in initializers and in Constant."""
    changes = {
        "short": lambda t: setattr(t, "raw_data", t.raw_data[:-3]),
        "long": lambda t: setattr(t, "raw_data", t.raw_data + b"1234"),
        "of negative sizes": lambda t: t.dims.__setitem__(0, -4),
        "of type 77": lambda t: setattr(t, "data_type", 77),
        "of type 0": lambda t: setattr(t, "data_type", 0),
        "without a name": lambda t: setattr(t, "name", ""),
        "elsewhere": lambda t: t.ClearField("raw_data") or setattr(t, "data_location", 1),
    }
    for name, change in changes.items():
        made = model([node(*CONV)], {"w": WEIGHT})
        change(made.graph.initializer[0])
        yield f"weights {name}", made
        made = model([node("Constant", [], ["w"], value=numpy_helper.from_array(WEIGHT))], {})
        change(made.graph.node[0].attribute[0].t)
        made.graph.node.append(node(*CONV))
        yield f"a constant {name}", made
    for place in (9, 900):
        places = numpy_helper.from_array(np.array([0, 5, place]), "places")
        some = helper.make_sparse_tensor(
            numpy_helper.from_array(numbers(3), "w"), places, [4, 3, 3, 3]
        )
        made = model([node(*CONV)], {})
        made.graph.sparse_initializer.append(some)
        yield f"sparse weights up to {place}", made
        constant = node("Constant", [], ["w"], sparse_value=some)
        yield f"a sparse constant up to {place}", model([constant, node(*CONV)], {})
    for given in ({}, {"value_strings": ["a"]}, {"value_float": 1.0, "value_int": 2}):
        constant = node("Constant", [], ["w"], **given)
        yield f"a constant of {given}", model([constant, node(*CONV)], {})


def of_opsets():
    for version in (-1, 0, 1, 5, 7, 8, 100):
        yield f"opset {version}", model([node(*CONV)], {"w": WEIGHT}, opsets=[("", version)])
    for pairs in ([], [("", 17), ("ai.onnx", 9)], [("", 17), ("ai.onnx", 17)], [("ai.onnx.ml", 3)]):
        yield f"opsets {pairs}", model([node(*CONV)], {"w": WEIGHT}, opsets=pairs)
    for version in (0, 1, 3, 99):
        yield f"IR {version}", model([node(*CONV)], {"w": WEIGHT}, ir=version)


def of_bodies():
    """Branches, loops, sequences, functions."""
    for name in ("w", "nobody"):
        body = helper.make_graph([node("Conv", ["x", name], ["t"])], "body", [], [value("t")])
        both = {"then_branch": body, "else_branch": body}
        for branches in (both, {"then_branch": body}):
            made = model([node("If", ["c"], **branches)], {"w": WEIGHT, "c": np.array(True)})
            yield f"If of {name}, {len(branches)} branches", made
    sequence = [helper.make_tensor_sequence_value_info("x", 1, (1, 3, 9, 9))]
    nodes = [node("SequenceAt", ["x", "i"], ["h"]), node("Conv", ["h", "w"])]
    yield "a sequence", model(nodes, {"w": WEIGHT, "i": np.array(0)}, inputs=sequence)
    opsets = [("", 17), ("my", 1)]
    for name, inner in (("itself", "B"), ("nobody", "Relu")):
        domain, read = ("my", "a") if inner == "B" else ("", "nobody")
        body = [node(inner, [read], ["b"], domain=domain)]
        function = helper.make_function(
            "my", "B", ["a"], ["b"], body, [helper.make_opsetid(*one) for one in opsets]
        )
        made = model([node("B", ["x"], ["h"], domain="my"), node("Conv", ["h", "w"])],
                     {"w": WEIGHT}, opsets=opsets)  # fmt: skip
        made.functions.append(function)
        yield f"a function of {name}", made


# Operators behind a convolution of 4 filters, with constants and attributes that do not fit.
BEHIND = [
    ("BatchNormalization", [numbers(3), numbers(4), numbers(4), numbers(4)], {}),
    ("BatchNormalization", [numbers(4), numbers(4), numbers(4), -np.ones(4, "f")], {}),
    ("BatchNormalization", [numbers(4)], {}),
    ("PRelu", [numbers(3)], {}),
    ("InstanceNormalization", [numbers(3), numbers(4)], {}),
    ("Clip", [numbers(2)], {}),
    ("Clip", [np.array(1.0)], {}),
    ("Clip", [np.float32(np.nan)], {}),
    ("Pad", [np.array([1, 1])], {}),
    ("Pad", [np.array([-9] * 8)], {}),
    ("Pad", [np.array([1] * 8)], {"mode": "foo"}),
    ("Add", [numbers(1, 3, 1, 1)], {}),
    ("Add", [], {}),
    ("Add", [np.ones(4)], {}),
    ("Concat", [], {}),
    ("Concat", [], {"axis": 9}),
    ("Reshape", [np.array([-1, -1])], {}),
    ("Reshape", [np.array([7, 11])], {}),
    ("Reshape", [], {}),
    ("Transpose", [], {"perm": [0, 0, 1, 1]}),
    ("Transpose", [], {"perm": [0, 1]}),
    ("Slice", [np.array([0])], {}),
    ("Slice", [np.array([0]), np.array([1]), np.array([1]), np.array([0])], {}),
    ("Split", [np.array([1, 1])], {"axis": 1}),
    ("MaxPool", [], {}),
    ("MaxPool", [], {"kernel_shape": [99, 99]}),
    ("MaxPool", [], {"kernel_shape": [2]}),
    ("MaxPool", [], {"kernel_shape": [0, 2]}),
    ("MaxPool", [], {"kernel_shape": [2, 2], "strides": [0, 0]}),
    ("AveragePool", [], {"kernel_shape": [2, 2], "pads": [5] * 4}),
    ("Resize", [], {}),
    ("Resize", [np.float32([]), np.float32([1, 1, 0, 2])], {}),
    ("Resize", [np.float32([]), np.float32([1, 1, np.nan, 2])], {}),
    ("Resize", [np.float32([]), np.float32([1, 2])], {}),
    ("DepthToSpace", [], {"blocksize": 3}),
    ("DepthToSpace", [], {}),
    ("Softmax", [], {"axis": 7}),
    ("Gemm", [numbers(4, 4)], {}),
    ("MatMul", [numbers(3, 3)], {}),
    ("LeakyRelu", [], {"alpha": "x"}),
    ("ReduceMean", [], {"axes": [9]}),
    ("ReduceMean", [], {"axes": [2, 2]}),
    ("Cast", [], {}),
    ("Cast", [], {"to": 99}),
    ("Dropout", [numbers(2)], {}),
    ("QuantizeLinear", [numbers(3)], {}),
    ("ConvTranspose", [numbers(5, 4, 3, 3)], {}),
    ("ConvTranspose", [numbers(4, 4, 3, 3)], {"output_shape": [1, 1]}),
    ("ConvTranspose", [numbers(4, 4, 3, 3)], {"output_padding": [9, 9]}),
    ("ConvTranspose", [numbers(4, 4, 3, 3), numbers(3)], {}),
    ("Div", [np.float32(0)], {}),
    ("Mul", [np.float32(np.inf)], {}),
    ("Expand", [np.array([2**40])], {}),
]


def of_operators():
    for number, (kind, constants, attributes) in enumerate(BEHIND):
        names = {f"c{place}": array for place, array in enumerate(constants)}
        names |= {"w": WEIGHT, "v": numbers(4, 4, 3, 3)}
        first = node("Conv", ["x", "w"], ["h"])
        second = node(kind, ["h", *list(names)[: len(constants)]], ["z"], **attributes)
        nodes = [first, second, node("Conv", ["z", "v"])]
        yield f"{kind} {number}", model(nodes, names)


def of_codes():
    """Quantized convolutions with codes that do not fit."""
    weight = RANDOM.integers(-9, 9, (4, 3, 3, 3)).astype(np.int8)
    codes = {
        "xs": np.float32(0.1), "xz": np.uint8(3), "ws": np.float32(0.02), "wz": np.int8(0),
        "ys": np.float32(0.2), "yz": np.uint8(0), "ww": weight,
    }  # fmt: skip
    changes = [
        {}, {"ys": np.float32(0)}, {"xs": np.float32(np.nan)}, {"ws": np.float32(-1)},
        {"ys": np.float32(np.inf)}, {"ws": numbers(3) ** 2, "wz": np.zeros(3, np.int8)},
        {"wz": np.uint8(0)}, {"xz": np.uint8([1, 2])}, {"xs": np.float64(0.1)},
        {"ww": weight[..., 0]}, {"ww": weight[:0]},
    ]  # fmt: skip
    for number, change in enumerate(changes):
        nodes = [
            node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
            node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
            node("DequantizeLinear", ["ww", "ws", "wz"], ["w"]),
            node("Conv", ["d", "w"], ["c"]),
            node("QuantizeLinear", ["c", "ys", "yz"], ["e"]),
            node("DequantizeLinear", ["e", "ys", "yz"]),
        ]
        yield f"codes {number}", model(nodes, codes | change)
    scales = {"s": np.float32(1), "z": np.uint8(0), "w": weight}
    inputs = [value("x", TensorProto.UINT8, (1, 3, 9, 9))]
    made = node("QLinearConv", ["x", "s", "z", "w"])
    yield "QLinearConv of 4", model([made], scales, inputs=inputs, output=value("y", 2))
    yield "ConvInteger", model([node("ConvInteger", ["x", "w"])], scales, output=value("y", 6))


KINDS = (of_weights, of_values, of_tensors, of_opsets, of_bodies, of_operators, of_codes)


def odd_models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield all of them, by what is odd."""
    for kind in KINDS:
        yield from kind()
