"""Random ONNX models, optimized and run beside the originals in onnxruntime.

    python tests/onnx/fuzz_models.py --models 2000 --seed 1 --jobs 2

Convolutions of every geometry with everything between them that exporters write, and things that
they hardly do: inputs with defaults, names of any letters, branches that read from outside, dead
ends. A model follows from the seed and its index alone, so that a failure is repeated in one line,
which is printed with it. A part that `optimize` gives back counts as a failure, too.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

if __name__ == "__main__":
    # Behind onnx itself, which the folder of this file has the name of.
    sys.path = [path for path in sys.path if Path(path) != Path(__file__).parent]
    sys.path.append(str(Path(__file__).parents[1]))

from conv.fuzz import compile_quickly

from winogen.onnx.library import get_library_path
from winogen.onnx.loading import evaluator
from winogen.onnx.rewrite import Rewritten, rewrite
from winogen.records import ACTIVATIONS

# Of the whole network, relative to the largest output. Where it is more, the network itself says
# how it amplifies errors, as by a Cast to float16: a change of its input, so large by TOUCH, may
# change the output TIMES less than winogen does. float64 decides otherwise: the original may be as
# far off.
NEAR, TOUCH, TIMES = 1e-5, 1e-6, 20
# With numbers of 8 bits in a model: of the largest output, at most and on average.
STEPS_MOST, STEPS_MEAN = 0.3, 0.02
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


@dataclass
class Outcome:
    """What became of one model."""

    wrong: str = ""
    rewritten: bool = False
    eligible: int = 0  # convolutions that winogen could run
    run: int = 0  # ... and does
    feeds: int = 0  # that the original accepted


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


# ---- judging -------------------------------------------------------------------------------------


def _session(model: onnx.ModelProto, library: str = "") -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(library)
    else:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def outcome_of(case: Case) -> Outcome:
    """Return what becomes of a model; ``wrong`` says what is wrong, if anything is."""
    outcome = Outcome()
    evaluated = _has_doubles(case.model)
    try:
        original = evaluator(case.model) if evaluated else _session(case.model)
        wanted = []
        for feed in case.feeds:
            try:
                _check_sizes(case.model, feed)
                with np.errstate(all="ignore"):
                    wanted.append(original.run(None, feed))
            except Exception:  # a size that it cannot have
                wanted.append(None)
    except Exception:  # no model
        return outcome
    outcome.feeds = sum(one is not None for one in wanted)
    if not outcome.feeds:
        return outcome
    try:
        result = rewrite(case.model)
        outcome.rewritten = bool(result.segments or result.quantized)
        _count(case.model, result, outcome)
        if result.given_back:
            outcome.wrong = f"given back: {result.given_back[0]}"
        elif outcome.rewritten and not result.verdict.sizes:
            outcome.wrong = f"not compared: {result.verdict.unproven}"
        else:
            outcome.wrong = _compared(case, original, result.model, wanted)
    except Exception as error:  # whatever it is, it is no right result
        outcome.wrong = f"{type(error).__name__}: {error}"
    return outcome


def _check_sizes(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> None:
    """Raise ValueError for sizes that are not declared: onnx's evaluator takes them, too."""
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, feed["x"].shape):
        if dim.dim_value not in (-1, 0, size):
            raise ValueError(f"got {size}; allowed: {dim.dim_value}")


def _has_doubles(model: onnx.ModelProto) -> bool:
    return any(v.type.tensor_type.elem_type == TensorProto.DOUBLE for v in model.graph.input)


def _compared(case: Case, original: Any, model: onnx.ModelProto, wanted: list) -> str:
    try:
        session = _session(model, get_library_path())
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) and _has_doubles(case.model):
            return ""  # of the original's own convolutions, which onnxruntime does not have
        raise
    for feed, outputs in zip(case.feeds, wanted):
        if outputs is None:
            continue
        exact = near = None
        for place, (y, z) in enumerate(zip(outputs, session.run(None, feed))):
            what = f"output {place} of x {feed['x'].shape}"
            if y.dtype != z.dtype or y.shape != z.shape:
                return f"{what}: {z.dtype} {z.shape}, not {y.dtype} {y.shape}"
            if case.quantized:
                if not _near_steps(y, z):
                    return f"{what}: more steps off than rounding explains"
                continue
            error = _error(z, y)
            if error > NEAR:
                near = near or original.run(None, _touched(feed))
                if error <= TIMES * _error(near[place], y):
                    continue
                exact = exact or _exact(case.model, feed)
                if exact is None or not (
                    _error(z, exact[place]) <= max(NEAR, TIMES * _error(y, exact[place]))
                ):
                    return f"{what}: off by {error:.1e}"
    return ""


def _touched(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same numbers but for the last digits."""
    signs = np.random.default_rng(0).choice((-TOUCH, TOUCH), feed["x"].shape)
    return {"x": (feed["x"] * (1 + signs)).astype(feed["x"].dtype)}


def _error(z: np.ndarray, y: np.ndarray) -> float:
    if not y.size:
        return 0.0
    finite = np.isfinite(y)
    if not finite.any():
        return 0.0
    error = np.abs(z[finite].astype(np.float64) - y[finite]).max()
    return float(error / max(np.abs(y[finite]).max(), 1e-6)) if error == error else np.inf


def _near_steps(y: np.ndarray, z: np.ndarray) -> bool:
    if not y.size:
        return True
    largest = max(np.abs(y).max(), 1.0)
    error = np.abs(z.astype(np.float64) - y) / largest
    return bool(error.max() <= STEPS_MOST and error.mean() <= STEPS_MEAN)


def _exact(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list | None:
    """The outputs in float64, as onnx's evaluator computes them; None where it cannot."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    swap = {TensorProto.FLOAT: TensorProto.DOUBLE}
    tensors = list(wide.graph.initializer)
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to":
                attribute.i = swap.get(attribute.i, attribute.i)
            if node.op_type == "Constant":
                tensors.append(attribute.t)
    for tensor in tensors:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float64), tensor.name))
    for value in (*wide.graph.input, *wide.graph.output):
        kind = value.type.tensor_type
        kind.elem_type = swap.get(kind.elem_type, kind.elem_type)
    try:
        with np.errstate(all="ignore"):
            wide_feed = {name: x.astype(np.float64) for name, x in feed.items()}
            return evaluator(wide).run(None, wide_feed)
    except Exception:  # it does not know all operators of all opsets
        return None


def _count(model: onnx.ModelProto, result: Rewritten, outcome: Outcome) -> None:
    """Count convolutions with constant weights that do more than multiply channels."""
    constant = {t.name: list(t.dims) for t in model.graph.initializer}
    if model.ir_version >= 4:
        for value in model.graph.input:
            constant.pop(value.name, None)
    needed = {value.name for value in model.graph.output}
    convs = []
    nodes = list(model.graph.node)
    for node in nodes:
        if node.op_type == "Constant":
            constant[node.output[0]] = list(node.attribute[0].t.dims)
        elif node.op_type in ("Identity", "DequantizeLinear") and node.input[0] in constant:
            constant[node.output[0]] = constant[node.input[0]]
    for node in reversed(nodes):
        if not needed.intersection(node.output):
            continue
        needed.update(node.input)
        for attribute in node.attribute:
            needed.update(name for one in attribute.g.node for name in one.input)
        dims = [constant.get(name) for name in node.input[1:]]
        if node.op_type == "Conv" and all(dims) and dims[0][1:] != [1, 1, 1]:
            convs.append(node.output[0])
    left = {name for node in result.model.graph.node if node.op_type == "Conv" and not node.domain
            for name in node.output}  # fmt: skip
    outcome.eligible = len(convs)
    outcome.run = sum(name not in left for name in convs)


def outcomes(seed: int, indices: range) -> Iterator[tuple[int, Outcome]]:
    """Yield what becomes of the models of a seed."""
    for index in indices:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield index, outcome_of(case_of(seed, index))


def _piece(seed: int, indices: range, quickly: bool) -> list[tuple[int, Outcome]]:
    from winogen.conv import execute

    ort.set_default_logger_severity(4)
    if quickly and execute.load.__name__ == "load":
        compile_quickly()
    return list(outcomes(seed, indices))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="index of the first model")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--shipped", action="store_true", help="compile as for users, not with -Og")
    asked = parser.parse_args()
    os.environ.setdefault("WINOGEN_CALIBRATE", "0")  # the same plans on every machine
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    last, step = asked.first + asked.models, 20
    pieces = [range(i, min(i + step, last)) for i in range(asked.first, last, step)]
    wrong = done = models = rewritten = eligible = run = 0
    begin = time.perf_counter()
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        work = [pool.submit(_piece, asked.seed, one, not asked.shipped) for one in pieces]
        for piece, future in zip(pieces, work):
            try:
                found = future.result()
            except Exception as error:  # the process is gone, and with it all that were to come
                print(f"{piece}: {type(error).__name__}: {error}", flush=True)
                return 1
            for index, outcome in found:
                models += outcome.feeds > 0
                rewritten += outcome.rewritten
                eligible += outcome.eligible
                run += outcome.run
                if outcome.wrong:
                    wrong += 1
                    again = f"--seed {asked.seed} --first {index} --models 1"
                    print(
                        f"python tests/onnx/fuzz_models.py {again}\n  {outcome.wrong}", flush=True
                    )
            done += len(piece)
            rate = done / (time.perf_counter() - begin)
            print(f"{done} graphs, {wrong} wrong, {rate:.1f} a second", file=sys.stderr, flush=True)
    share = f"{run} of {eligible} eligible convolutions by winogen ({run / max(eligible, 1):.1%})"
    print(
        f"{done} graphs, {models} run in onnxruntime, {rewritten} rewritten, {wrong} wrong; {share}"
    )
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
