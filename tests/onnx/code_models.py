"""Random quantized networks: sums, concatenations, pools and tables between convolutions of bytes.

Each operator stands between pairs of standard ONNX, or as one of onnxruntime's own. A model follows
from its seed alone.
"""

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
FORMATS = "pairs", "operators"
# What has an operator of onnxruntime's own, and what that has besides inputs and outputs.
OWN = {
    "Add": "QLinearAdd",
    "AveragePool": "QLinearAveragePool",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
    "LeakyRelu": "QLinearLeakyRelu",
    "Sigmoid": "QLinearSigmoid",
    "Concat": "QLinearConcat",
    "Conv": "QLinearConv",
    "Gemm": "QGemm",
}


@dataclass(frozen=True)
class Value:
    """Codes of maps, or of rows; ``size``: height and width."""

    name: str
    scale: float
    zero: int
    channels: int
    size: tuple = ()

    @property
    def numbers(self):
        return [self.name, f"{self.name}.scale", f"{self.name}.zero"]


@dataclass
class Case:
    """A model; ``convolutions``: how many it has."""

    model: object
    convolutions: int
    kinds: set = field(default_factory=set)  # of operators

    def feed(self, batch, seed=0):
        random = np.random.default_rng(seed)
        (x,) = self.model.graph.input
        sizes = [d.dim_value for d in x.type.tensor_type.shape.dim][1:]
        if x.type.tensor_type.elem_type == TensorProto.FLOAT:
            return {"x": random.normal(0, 1, (batch, *sizes)).astype(np.float32)}
        dtype = helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type)
        ends = np.iinfo(dtype)
        return {"x": random.integers(ends.min, ends.max + 1, (batch, *sizes)).astype(dtype)}


class Maker:
    """Builds one network."""

    def __init__(self, seed, form=None, floats=None, batch="n"):
        self.random = np.random.default_rng(seed)
        self.form = form or self.any(FORMATS)
        self.dtype = str(self.any(list(TYPES)))
        self.batch, self.nodes, self.arrays, self.kinds = batch, [], {}, set()
        self.floats = bool(self.any([0, 1])) if floats is None else floats
        self.count = 0

    def any(self, some):
        return some[self.random.integers(len(some))]

    # ---- values ----------------------------------------------------------------------------------

    def value(self, channels, size=(), scale=None, zero=None):
        name = f"v{self.count}"
        self.count += 1
        ends = np.iinfo(self.dtype)
        zero = int(self.random.integers(ends.min, ends.max + 1)) if zero is None else zero
        scale = float(np.float32(self.random.uniform(0.02, 0.06) if scale is None else scale))
        self.arrays[f"{name}.scale"] = np.float32(scale)
        self.arrays[f"{name}.zero"] = np.array(zero, self.dtype)
        return Value(name, scale, zero, channels, tuple(size))

    def node(self, kind, reads, made, domain="", **attributes):
        self.nodes.append(helper.make_node(kind, reads, made, domain=domain, **attributes))

    def between(self, kind, reads, y, constants=(), activation=None, **attributes):
        """An operator of codes; ``constants``: names of arrays of floats, which pairs read."""
        self.kinds.add(kind)
        if self.form == "operators" and kind in OWN and not activation:
            groups = [name for x in reads for name in x.numbers]
            if kind == "Concat":
                names = [*y.numbers[1:], *groups]
            elif kind == "Gemm":
                names = [*groups, *(constants or [""]), *y.numbers[1:]]
            else:
                names = [*groups, *y.numbers[1:], *constants]
            domain = "" if kind == "Conv" else "com.microsoft"
            self.node(OWN[kind], names, [y.name], domain, **attributes)
            return y
        inner = []
        for place, x in enumerate(reads):
            inner.append(f"{y.name}.in{place}")
            axis = {"axis": x.size[0]} if x.size[1:] == ("axis",) else {}
            self.node("DequantizeLinear", x.numbers, inner[-1:], **axis)
        for name in constants:
            self.node("DequantizeLinear", [name, f"{name}.scale"], [f"{name}.real"], axis=0)
            inner.append(f"{name}.real")
        self.node(kind, inner, [f"{y.name}.real"], **attributes)
        source = f"{y.name}.real"
        if activation:
            self.node(activation, [source], [f"{y.name}.cut"])
            source = f"{y.name}.cut"
        self.node("QuantizeLinear", [source, *y.numbers[1:]], [y.name])
        return y

    # ---- operators -------------------------------------------------------------------------------

    def weights(self, x, shape, axis=0, groups=1):
        """Names of weights, their scale and zero point; and of a bias in steps of the sums."""
        random, name = self.random, f"w{self.count}"
        filters, each = groups * shape[axis], groups == 1 and bool(self.any([0, 1]))
        steps = random.uniform(0.002, 0.006, filters if each else ()).astype(np.float32)
        self.arrays[name] = random.integers(-127, 128, shape).astype(np.int8)
        self.arrays[f"{name}.scale"] = steps
        self.arrays[f"{name}.zero"] = np.zeros(steps.shape, np.int8)
        bias = f"{name}.bias"
        self.arrays[bias] = random.integers(-2000, 2000, filters).astype(np.int32)
        both = np.broadcast_to(np.float32(x.scale) * steps, filters)
        self.arrays[f"{bias}.scale"] = np.ascontiguousarray(both)
        # As the names of a value; where its scales go along an axis.
        weight = Value(name, 0.0, 0, filters, (axis, "axis") if each else ())
        return weight, (bias,) if self.any([0, 1, 1]) else ()

    def conv(self, x):
        channels, taps = x.channels, int(self.any([1, 3, 3]))
        stride = int(self.any([1, 1, 1, 2])) if min(x.size) > 4 else 1
        groups = channels if self.any([0, 0, 1]) else 1
        filters = channels if groups > 1 else int(self.any([4, 16, 19, 32, 40]))
        weight, bias = self.weights(x, (filters, channels // groups, taps, taps))
        size = [(n + taps // 2 * 2 - taps) // stride + 1 for n in x.size]
        wide = 0.004 * 73 * 73 * x.scale * np.sqrt(channels // groups * taps * taps)
        y = self.value(filters, size, scale=wide / 60)
        activation = self.any([None, None, "Relu"])
        return self.between(
            "Conv", [x, weight], y, bias, activation, group=groups, pads=[taps // 2] * 4,
            strides=[stride] * 2,
        )  # fmt: skip

    def transposed(self, x):
        channels, taps, stride = x.channels, int(self.any([2, 3, 4])), int(self.any([1, 2, 2, 3]))
        groups = channels if self.any([0, 0, 1]) else 1
        filters = channels if groups > 1 else int(self.any([4, 16, 19, 32]))
        shape = channels, filters // groups, taps, taps
        weight, bias = self.weights(x, shape, 1, groups)
        pads = [int(self.random.integers(0, taps)) for _ in range(4)]
        more = [int(self.random.integers(0, stride)) for _ in range(2)]
        ends = zip(x.size, more, pads[:2], pads[2:])
        size = [(n - 1) * stride + taps + last - sum(both) for n, last, *both in ends]
        if min(size) < 1:
            return self.transposed(x)
        wide = 0.004 * 73 * 73 * x.scale * np.sqrt(channels // groups) * taps / stride
        y = self.value(filters, size, scale=wide / 60)
        return self.between(
            "ConvTranspose", [x, weight], y, bias, self.any([None, "Relu"]), group=groups,
            pads=pads, strides=[stride] * 2, output_padding=more,
        )  # fmt: skip

    def shuffled(self, x):
        """Channels as blocks of pixels, of bytes or of numbers."""
        high, wide = x.size
        y = self.value(x.channels // 4, (2 * high, 2 * wide), x.scale, x.zero)
        values = {"blocksize": 2, "mode": self.any(["DCR", "CRD"])}
        if self.form == "pairs":
            return self.between("DepthToSpace", [x], y, **values)
        self.kinds.add("DepthToSpace")
        self.node("DepthToSpace", [x.name], [y.name], **values)
        return y

    def add(self, x, z):
        y = self.value(x.channels, x.size, scale=x.scale + z.scale)
        return self.between("Add", [x, z], y, activation=self.any([None, "Relu"]))

    def join(self, *parts):
        y = self.value(sum(x.channels for x in parts), parts[0].size)
        return self.between("Concat", parts, y, axis=1)

    def table(self, x):
        kind = self.any(["LeakyRelu", "Sigmoid"])
        scale = 1 / 256 if kind == "Sigmoid" else None
        values = {"alpha": 0.125} if kind == "LeakyRelu" else {}
        return self.between(kind, [x], self.value(x.channels, x.size, scale), **values)

    def mean(self, x):
        # Not half as large: then every other mean would lie between two codes.
        y = self.value(x.channels, [n - 1 for n in x.size], scale=0.437 * x.scale)
        return self.between("AveragePool", [x], y, kernel_shape=[2, 2])

    def largest(self, x):
        """Of bytes, as opsets from 12 on have it; with the codes that it reads."""
        size = [(n + 2 - 3) // 2 + 1 for n in x.size]
        y = self.value(x.channels, size, x.scale, x.zero)
        values = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
        if self.form == "pairs":
            return self.between("MaxPool", [x], y, **values)
        self.kinds.add("MaxPool")
        self.node("MaxPool", [x.name], [y.name], **values)
        return y

    def product(self, x):
        """A mean of each channel, flattened, and a product of matrices."""
        y = self.value(x.channels, (1, 1), scale=0.337 * x.scale)
        x = self.between("GlobalAveragePool", [x], y)
        across = int(self.any([0, 1]))
        flat = self.value(x.channels, (), x.scale, x.zero)
        if self.form == "pairs":
            self.between("Flatten", [x], flat)
        else:
            self.node("Flatten", [x.name], [flat.name])
        shape = (9, x.channels) if across else (x.channels, 9)
        weight, bias = self.weights(flat, shape, 0 if across else 1)
        y = self.value(9, (), 0.004 * 73 * x.scale * 20 * np.sqrt(x.channels) / 40)
        return self.between("Gemm", [flat, weight], y, bias, transB=across)

    # ---- the whole -------------------------------------------------------------------------------

    def made(self, steps=7, enlarges=False):
        """A network of so many operators and some more; ``enlarges``: maps become larger, too."""
        channels = int(self.any([3, 8, 16]))
        size = [int(n) for n in self.random.integers(5, 19, 2)]
        first = self.value(channels, size)
        if self.floats:
            self.node("QuantizeLinear", ["x", *first.numbers[1:]], [first.name])
        values = [self.conv(first)]
        for _ in range(steps):
            x = values[-1]
            alike = [z for z in values if (z.channels, z.size) == (x.channels, x.size)]
            beside = [z for z in values if z.size == x.size]
            kind = self.any(["conv", "conv", "conv", "add", "join", "table", "mean", "largest"])
            if enlarges and max(x.size) < 30:
                kind = self.any([kind, "transposed", "shuffled"])
            if kind == "shuffled" and x.channels % 4:
                kind = "transposed"
            if min(x.size) < 4 and kind in ("mean", "largest"):
                kind = "conv"
            if kind == "add":
                values.append(self.add(x, self.any(alike)))
            elif kind == "join":
                others = [self.any(beside) for _ in range(self.random.integers(1, 3))]
                if sum(z.channels for z in others) < 90:
                    values.append(self.join(x, *others))
            else:
                values.append(getattr(self, kind)(x))
        y = values[-1]
        outputs = [self.product(y) if self.any([0, 1]) else y]
        if self.any([0, 0, 1]) and len(values) > 3:
            outputs.append(values[2])
        return self._case(first, outputs)

    def _case(self, first, outputs):
        kind, start = (TensorProto.FLOAT, "x") if self.floats else (TYPES[self.dtype], first.name)
        if not self.floats:
            for node in self.nodes:
                node.input[:] = ["x" if name == start else name for name in node.input]
        make = helper.make_tensor_value_info
        ends = []
        for number, y in enumerate(dict.fromkeys(outputs)):
            name = y.name
            if self.floats:
                name = f"y{number}"
                self.node("DequantizeLinear", y.numbers, [name])
            ends.append(make(name, kind, [self.batch, y.channels, *y.size]))
        read = {name for node in self.nodes for name in node.input}
        tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in self.arrays.items()
                   if name in read]  # fmt: skip
        x = make("x", kind, [self.batch, first.channels, *first.size])
        graph = helper.make_graph(self.nodes, "net", [x], ends, tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        kinds = "Conv", "ConvTranspose", "QLinearConv"
        convolutions = sum(n.op_type in kinds for n in self.nodes)
        return Case(model, convolutions, self.kinds)
