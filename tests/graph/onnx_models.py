"""Random ONNX models: convolutions of every geometry, with what exporters write between them.

Also things that they hardly write: inputs with defaults, names of any letters, branches that read
from outside, dead ends. A model follows from the seed and its index alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from winogen.records import ACTIVATIONS

ODD = ("", "a b", "é/ü:0", "layer", 'with"quotes"', "x" * 300)
# Every activation of winogen's that ONNX has an operator for, with its parameters.
PARAMETERS = {"leaky_relu": (0.2,), "clip": (-0.5, 0.75)}
OPERATORS = [
    (known, function, PARAMETERS.get(known.name, known.defaults))
    for known in ACTIVATIONS.values() for function in known.onnx
]  # fmt: skip
PARTS = "SiLU hardswish gelu".split()  # by several nodes
OTHERS = "Tanh Elu Softplus Sigmoid Celu Selu Softsign Neg Abs".split()
SINCE = {
    schema.name: schema.since_version
    for schema in reversed(onnx.defs.get_all_schemas_with_history()) if not schema.domain
}  # fmt: skip
NO_DOUBLES = ("Softplus", "Mish", "HardSigmoid", "Selu", "Celu")  # of onnxruntime


class Value(NamedTuple):
    """A map of the model; maps of equal ``size`` have equal heights and widths."""

    name: str
    channels: int
    size: tuple


@dataclass
class Case:
    """A model with what is to be fed, and what is known of it."""

    model: onnx.ModelProto
    feeds: list[dict[str, np.ndarray]]
    quantized: bool = False


class Maker:
    """Builds one model."""

    def __init__(self, seed: int, index: int):
        self.rng = random.Random(f"{seed} {index}")
        self.numbers = np.random.default_rng([seed, index])
        rng = self.rng
        self.opset = rng.randint(7, 22)
        self.ir = 3 if self.opset < 9 and rng.random() < 0.5 else 8
        self.dtype = np.dtype(np.float64 if rng.random() < 0.06 else np.float32)
        self.kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.quantized = False
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.odd = rng.random() < 0.3
        self.labels: set[str] = set()
        self.count = 0

    # ---- names, constants, nodes -----------------------------------------------------------------

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}é {self.count}" if self.odd else f"{stem}{self.count}"

    def constant(self, array: np.ndarray, replaceable: bool = True) -> str:
        """A constant as an initializer, the output of a node, or an input with a default."""
        name, tensor = self.fresh("c"), numpy_helper.from_array(np.asarray(array))
        draw = self.rng.random()
        if draw < 0.12:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
            return name
        tensor.name = name
        self.tensors.append(tensor)
        if self.ir == 3 or (replaceable and draw > 0.985):
            info = helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
            self.inputs.append(info)
        if draw < 0.18:
            return self.node("Identity", name)
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **values) -> str:
        names = [self.fresh() for _ in range(outputs)]
        label = f"{kind.lower()}_{self.count}"
        if self.odd:  # onnxruntime refuses two of one name, but not that of what another makes
            label = self.rng.choice((*ODD, *(node.output[0] for node in self.nodes[-9:])))
            if label in self.labels and self.rng.random() < 0.99:
                label += str(self.count)
            self.labels.add(label)
        self.nodes.append(helper.make_node(kind, inputs, names, label, domain=domain, **values))
        return names[0]

    def weights(self, *shape: int) -> np.ndarray:
        scale = 1 / np.sqrt(np.prod(shape[1:]) or 1)
        return (scale * self.numbers.standard_normal(shape)).astype(self.dtype)

    def scalar(self, value: float) -> str:
        return self.constant(np.array(value, self.dtype), replaceable=False)

    # ---- layers ----------------------------------------------------------------------------------

    def conv(self, x: Value, filters: int = 0) -> Value:
        rng = self.rng
        filters = filters or rng.choice((1, 3, 4, 6, 8, 16))
        groups = 1
        draw = rng.random()
        if draw < 0.2:
            groups = filters = x.channels
        elif draw < 0.3:
            groups = rng.choice([g for g in (1, 2, 3, 4) if x.channels % g == filters % g == 0])
        taps = rng.choice(((3, 3), (3, 3), (3, 3), (1, 1), (1, 1), (5, 5), (1, 3), (3, 2)))
        values: dict = {}
        stride = rng.choice((1, 1, 1, 1, 2))
        if stride == 2 or rng.random() < 0.2:
            values["strides"] = [stride, rng.choice((stride, 1))]
        if rng.random() < 0.1:
            values["dilations"] = [rng.choice((1, 2)), 2]
        reach = [d * (t - 1) for d, t in zip(values.get("dilations", (1, 1)), taps)]
        pads = [r // 2 for r in reach] + [r - r // 2 for r in reach]
        size = (*x.size, ("conv", *taps, str(values)))
        draw = rng.random()
        if draw < 0.1:
            values["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
            size = (*size, values["auto_pad"])
        elif draw < 0.85:
            values["pads"] = pads
            if "strides" not in values:
                size = x.size
        else:
            values["pads"] = [rng.randint(0, 3) for _ in range(4)]
            size = (*size, str(values["pads"]))
        if groups > 1:
            values["group"] = groups
        if rng.random() < 0.5:
            values["kernel_shape"] = list(taps)
        arrays = [self.constant(self.weights(filters, x.channels // groups, *taps))]
        if rng.random() < 0.6:
            arrays.append(self.constant(self.weights(filters)))
        return Value(self.node("Conv", x.name, *arrays, **values), filters, size)

    def transposed(self, x: Value) -> Value:
        """A transposed convolution: strides, what is left out or added at the ends, groups."""
        rng = self.rng
        groups = rng.choice([g for g in (1, 1, 1, 2, x.channels) if x.channels % g == 0])
        filters = groups * (1 if groups == x.channels else rng.choice((1, 2, 4)))
        taps = [rng.randint(1, 4) for _ in range(2)]
        strides = [rng.choice((1, 2, 2, 3)) for _ in range(2)]
        values: dict = {"strides": strides}
        if rng.random() < 0.1:
            values["dilations"] = [2, rng.choice((1, 2))]
        draw = rng.random()
        if draw < 0.1:
            values["auto_pad"] = rng.choice(("SAME_UPPER", "VALID"))
        elif draw < 0.7:
            values["pads"] = [rng.randint(0, t // 2) for t in (*taps, *taps)]
            if rng.random() < 0.4:
                values["output_padding"] = [rng.randint(0, s - 1) for s in strides]
        if groups > 1:
            values["group"] = groups
        if rng.random() < 0.5:
            values["kernel_shape"] = taps
        arrays = [self.constant(self.weights(x.channels, filters // groups, *taps))]
        if rng.random() < 0.6:
            arrays.append(self.constant(self.weights(filters)))
        y = self.node("ConvTranspose", x.name, *arrays, **values)
        return Value(y, filters, (*x.size, ("transposed", *taps, str(values))))

    def norm(self, x: Value) -> Value:
        arrays = [self.weights(x.channels) for _ in range(3)]
        arrays.append(self.numbers.uniform(0.5, 2, x.channels).astype(self.dtype))
        names = [self.constant(a) for a in arrays]
        values = {"epsilon": 1e-3} if self.rng.random() < 0.5 else {}
        return x._replace(name=self.node("BatchNormalization", x.name, *names, **values))

    def activation(self, x: Value) -> Value:
        rng, y = self.rng, x.name
        known, function, parameters = rng.choice(OPERATORS)
        kind = rng.choice((function.names, function.names, function.names, *PARTS, *OTHERS))
        needed = {"gelu": 9}.get(kind, SINCE.get(kind, 0))
        if self.opset < needed or (self.dtype == np.float64 and kind in NO_DOUBLES):
            kind = "Relu"
        if kind == "SiLU":
            both = [y, self.node("Sigmoid", y)]
            rng.shuffle(both)
            y = self.node("Mul", *both)
        elif kind == "hardswish":
            y = self.node("Mul", y, self.node("HardSigmoid", y, alpha=1 / 6, beta=0.5))
        elif kind == "gelu":
            erf = self.node("Erf", self.node("Div", y, self.scalar(np.sqrt(2))))
            total = self.node("Add", erf, self.scalar(1))
            y = self.node("Mul", self.node("Mul", y, total), self.scalar(0.5))
        elif kind == "PRelu":
            slopes = self.weights(*rng.choice(((x.channels, 1, 1), (1, 1, 1))))
            y = self.node(kind, y, self.constant(slopes))
        elif kind == "Clip":
            values = known.given(function, parameters)
            y = self.clip(y, values["min"], values["max"])
        elif kind == function.names and rng.random() < 0.8:
            y = self.node(kind, y, **known.given(function, parameters))
        else:
            y = self.node(kind, y)
        return x._replace(name=y)

    def clip(self, x: str, low: float, high: float) -> str:
        if self.opset < 11:
            return self.node("Clip", x, min=low, max=high)
        return self.node("Clip", x, self.scalar(low), self.scalar(high))

    def pad(self, x: Value) -> Value:
        mode = self.rng.choice(("constant", "constant", "reflect", "edge"))
        sides = [self.rng.randint(0, 2) for _ in range(4)]
        pads = [0, 0, *sides[:2], 0, 0, *sides[2:]]
        if self.opset < 11:
            y = self.node("Pad", x.name, pads=pads, mode=mode)
        else:
            inputs = [self.constant(np.array(pads), replaceable=False)]
            if mode == "constant" and self.rng.random() < 0.4:
                inputs.append(self.scalar(self.rng.choice((0.0, 0.0, 1.5))))
            y = self.node("Pad", x.name, *inputs, mode=mode)
        return Value(y, x.channels, (*x.size, ("pad", *sides)))

    def pool(self, x: Value) -> Value:
        kind = self.rng.choice(("MaxPool", "AveragePool"))
        values: dict = {"kernel_shape": [2, 2], "strides": [2, 2]}
        if self.rng.random() < 0.4:
            values = {"kernel_shape": [3, 3], "pads": [1] * 4}
            if self.rng.random() < 0.5:
                values["strides"] = [2, 2]
        if self.opset >= 10 and self.rng.random() < 0.2:
            values["ceil_mode"] = 1
        same = "pads" in values and "strides" not in values
        size = x.size if same else (*x.size, ("pool", str(values)))
        return Value(self.node(kind, x.name, **values), x.channels, size)

    def factor(self, x: Value) -> Value:
        kind = self.rng.choice(("Mul", "Add", "Sub", "Div"))
        shape = self.rng.choice(((x.channels, 1, 1), (1, x.channels, 1, 1), (1,), ()))
        array = self.numbers.uniform(0.5, 2, shape).astype(self.dtype)
        both = [x.name, self.constant(array)]
        if kind in ("Mul", "Add") and self.rng.random() < 0.3:
            both.reverse()
        return x._replace(name=self.node(kind, *both))

    def squeeze(self, x: Value) -> Value:
        gate = self.node("GlobalAveragePool", x.name)
        weight = self.constant(self.weights(x.channels, x.channels, 1, 1))
        gate = self.node("Sigmoid", self.node("Conv", gate, weight))
        return x._replace(name=self.node("Mul", x.name, gate))

    def excite(self, x: Value) -> Value:
        """What follows from the mean of every channel, flattened, by a matrix."""
        mean, many = self.node("GlobalAveragePool", x.name), x.channels
        flat = self.rng.choice(("Flatten", "Reshape", "ReduceMean"))
        if flat == "Reshape":
            y = self.node("Reshape", mean, self.constant(np.array([0, -1]), replaceable=False))
        elif flat == "ReduceMean" and self.opset < 18:
            y = self.node("ReduceMean", x.name, axes=[2, -1], keepdims=0)
        else:
            y = self.node("Flatten", mean)
        weight = self.constant(self.weights(many, many))
        if self.rng.random() < 0.5:
            bias = self.constant(self.weights(*self.rng.choice(((many,), (1, many), (1,)))))
            turned = self.rng.randint(0, 1)
            y = self.node("Gemm", y, weight, bias, transB=turned)
        else:
            y = self.node("MatMul", y, weight)
        if self.rng.random() < 0.4:
            y = self.node("Softmax", y, axis=self.rng.choice((0, 1, 1)))
        else:
            y = self.node(self.rng.choice(("Sigmoid", "Relu")), y)
        last = self.constant(np.array([0, many, 1, 1]), replaceable=False)
        gate = self.node("Reshape", y, last)
        return x._replace(name=self.node(self.rng.choice(("Mul", "Add")), x.name, gate))

    def last(self, x: Value) -> Value:
        """Between a permutation and the one back: norms, matrices, factors, softmax."""
        rng, many = self.rng, x.channels
        y = start = self.node("Transpose", x.name, perm=[0, 2, 3, 1])
        for _ in range(rng.randint(1, 4)):
            kind = rng.choice(("norm", "norm", "MatMul", "MatMul", "Mul", "Add", "Softmax", "Relu"))
            if kind == "norm":
                y = self.layer_norm(y, many)
            elif kind == "MatMul":
                wide = rng.choice((4, 16))
                y = self.node("MatMul", y, self.constant(self.weights(many, wide)))
                many = wide
                if rng.random() < 0.5:
                    y = self.node("Add", self.constant(self.weights(many)), y)
            elif kind == "Softmax":
                axes = (3, 3, -1, 2) if self.opset > 10 else (3, 2)
                y = self.node(kind, y, axis=rng.choice(axes))
            elif kind == "Relu":
                y = self.node(kind, y)
            else:
                shape = rng.choice(((many,), (1, 1, 1, many), (1,), ()))
                y = self.node(kind, y, self.constant(self.weights(*shape)))
        if many == x.channels and rng.random() < 0.4:
            y = self.node("Add", y, start)
        return Value(self.node("Transpose", y, perm=[0, 3, 1, 2]), many, x.size)

    def layer_norm(self, y: str, many: int) -> str:
        """In one node, or by parts as before opset 17."""
        scale, shift = (self.constant(self.weights(many)) for _ in range(2))
        epsilon = self.rng.choice((1e-5, 1e-2))
        if self.opset > 16 and self.rng.random() < 0.7:
            given = [scale, shift][: self.rng.randint(1, 2)]
            return self.node("LayerNormalization", y, *given, epsilon=epsilon)

        def mean(name: str) -> str:
            if self.opset < 18:
                return self.node("ReduceMean", name, axes=[-1 if self.opset > 10 else 3])
            return self.node("ReduceMean", name, self.constant(np.array([-1]), replaceable=False))

        apart = self.node("Sub", y, mean(y))
        square = mean(self.node("Pow", apart, self.scalar(2)))
        root = self.node("Sqrt", self.node("Add", square, self.scalar(epsilon)))
        return self.node("Add", self.node("Mul", self.node("Div", apart, root), scale), shift)

    def instance_norm(self, x: Value) -> Value:
        """Of every channel, or of groups; softmax over channels now and then."""
        if self.opset > 12 and self.rng.random() < 0.3:
            return x._replace(name=self.node("Softmax", x.name, axis=self.rng.choice((1, -3, 3))))
        groups = self.rng.choice([g for g in (1, 2, 4, x.channels) if x.channels % g == 0])
        scale, shift = (self.constant(self.weights(groups)) for _ in range(2))
        if groups == x.channels:
            return x._replace(name=self.node("InstanceNormalization", x.name, scale, shift))
        split = self.constant(np.array([0, groups, -1]), replaceable=False)
        y = self.node("Reshape", x.name, split)
        y = self.node("InstanceNormalization", y, scale, shift)
        return x._replace(name=self.node("Reshape", y, self.node("Shape", x.name)))

    def narrow_channels(self, x: Value) -> Value:
        """Half of the channels, or blocks of pixels from them."""
        if x.channels % 4 == 0 and self.rng.random() < 0.4:
            y = self.node("DepthToSpace", x.name, blocksize=2)
            return Value(y, x.channels // 4, (*x.size, "spread"))
        half = x.channels // 2
        if not half:
            return x
        if self.opset < 10:
            y = self.node("Slice", x.name, starts=[0], ends=[half], axes=[1])
        else:
            bounds = [self.constant(np.array([v]), replaceable=False) for v in (0, half, 1)]
            y = self.node("Slice", x.name, *bounds)
        return Value(y, half, x.size)

    def enlarge(self, x: Value) -> Value:
        if self.opset < 11:
            return x
        scales = self.constant(np.array([1, 1, 2, 2], np.float32), replaceable=False)
        empty = "" if self.opset > 12 else self.constant(np.array([], np.float32), False)
        where = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        y = self.node("Resize", x.name, empty, scales, mode="nearest", **where)
        return Value(y, x.channels, (*x.size, "twice"))

    def cast(self, x: Value) -> Value:
        """Through other numbers and back."""
        other = self.rng.choice((TensorProto.FLOAT16, TensorProto.DOUBLE))
        y = self.node("Cast", x.name, to=other)
        y = self.node("Relu", y) if other == TensorProto.DOUBLE else y
        return x._replace(name=self.node("Cast", y, to=self.kind))

    def branch(self, x: Value) -> Value:
        """An If whose branches read what lies outside of them."""

        def body(kind: str) -> onnx.GraphProto:
            name = self.fresh("inner")
            value = helper.make_tensor_value_info(name, self.kind, None)
            return helper.make_graph([helper.make_node(kind, [x.name], [name])], kind, [], [value])

        flag = self.constant(np.array(self.rng.random() < 0.5), replaceable=False)
        y = self.node("If", flag, then_branch=body("Relu"), else_branch=body("Neg"))
        return x._replace(name=y)

    def copy(self, x: Value) -> Value:
        return x._replace(name=self.node(self.rng.choice(("Identity", "Dropout")), x.name))

    def pair(self, x: Value) -> Value:
        """QuantizeLinear, DequantizeLinear; mostly a convolution between them."""
        if self.opset < 13 or self.dtype != np.float32:
            return self.activation(x)
        self.quantized = True
        step, zero = self.constant(np.float32(0.05), False), self.constant(np.uint8(120), False)

        def through(name: str) -> str:
            narrow = self.node("QuantizeLinear", name, step, zero)
            return self.node("DequantizeLinear", narrow, step, zero)

        y = through(x.name)
        if self.rng.random() < 0.2:
            return x._replace(name=y)
        filters = self.rng.choice((4, 8))
        if self.rng.random() < 0.25:  # weights of floats
            weight = self.constant(self.weights(filters, x.channels, 3, 3), False)
        else:
            codes = self.numbers.integers(-127, 128, (filters, x.channels, 3, 3)).astype(np.int8)
            scale = np.float32(0.5 / 127 / np.sqrt(x.channels))
            names = [self.constant(a, False) for a in (codes, scale, np.int8(0))]
            weight = self.node("DequantizeLinear", *names)
        y = self.node("Conv", y, weight, pads=[1] * 4)
        if self.rng.random() < 0.5:
            y = self.node("Relu", y)
        return Value(through(y), filters, x.size)

    def join(self, x: Value, values: list[Value]) -> Value:
        fitting = [v for v in values if v.size == x.size]
        alike = [v for v in fitting if v.channels == x.channels]
        if alike and self.rng.random() < 0.6:
            both = [x.name, self.rng.choice(alike).name]
            self.rng.shuffle(both)
            kind = self.rng.choice(("Add", "Add", "Add", "Sum", "Mul", "Sub"))
            return x._replace(name=self.node(kind, *both))
        if not fitting:
            return x
        others = self.rng.sample(fitting, min(len(fitting), self.rng.randint(1, 3)))
        names = [x.name, *(v.name for v in others)]
        y = self.node("Concat", *names, axis=1)
        return Value(y, x.channels + sum(v.channels for v in others), x.size)

    # ---- the whole -------------------------------------------------------------------------------

    def case(self) -> Case:
        rng = self.rng
        values = [Value("x", rng.choice((3, 4, 8)), ())]
        steps = {
            self.conv: 10, self.norm: 4, self.activation: 6, self.pad: 1.5, self.pool: 1.5,
            self.factor: 2, self.squeeze: 0.7, self.narrow_channels: 0.8, self.enlarge: 0.4,
            self.cast: 0.5, self.branch: 0.5, self.copy: 0.7, self.pair: 0.5,
            self.excite: 1, self.last: 2, self.instance_norm: 1, self.transposed: 1,
        }  # fmt: skip
        halved = 0
        for _ in range(rng.randint(4, 14)):
            x = values[-1] if rng.random() < 0.8 else rng.choice(values)
            if rng.random() < 0.2:
                y = self.join(x, values)
            else:
                step = rng.choices(list(steps), list(steps.values()))[0]
                y = step(x)
            if y.channels <= 40 and halved < 3:
                values.append(y)
                halved += len(y.size) > len(x.size)
        if not any(node.op_type == "Conv" for node in self.nodes):
            values.append(self.conv(values[-1]))
        made = [v for v in values[1:] if v.name != "x"] or [self.conv(values[0])]
        wanted = {made[-1].name} | {rng.choice(made).name for _ in range(rng.choice((0, 0, 1, 2)))}
        if rng.random() < 0.15:  # nobody reads it
            name = "unread"
            self.tensors.append(numpy_helper.from_array(self.weights(3), name))
            if self.ir == 3 or rng.random() < 0.7:
                self.inputs.append(helper.make_tensor_value_info(name, self.kind, [3]))
        return Case(self.model(values[0].channels, wanted), self.feeds(values[0].channels),
                    self.quantized)  # fmt: skip

    def model(self, channels: int, wanted: set[str]) -> onnx.ModelProto:
        shape = self.rng.choice(
            (["n", channels, "h", "w"], [None, channels, None, None], [1, channels, 16, 18],
             ["n", channels, 16, 18], [-1, channels, "?", "?"])
        )  # fmt: skip
        x = helper.make_tensor_value_info("x", self.kind, shape)
        outputs = [helper.make_tensor_value_info(n, self.kind, None) for n in sorted(wanted)]
        graph = helper.make_graph(self.nodes, "net", [x, *self.inputs], outputs, self.tensors)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.ir)

    def feeds(self, channels: int) -> list[dict[str, np.ndarray]]:
        shapes = ((1, 16, 18), (1, 23, 17), (3, 16, 18), (0, 16, 18))
        return [
            {"x": self.numbers.standard_normal((n, channels, *size)).astype(self.dtype)}
            for n, *size in shapes
        ]


def case_of(seed: int, index: int) -> Case:
    """Return model ``index`` of a seed."""
    return Maker(seed, index).case()
