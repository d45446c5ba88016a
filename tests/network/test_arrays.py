"""Nodes as loops over arrays: each computes what onnxruntime does, in both layouts of maps."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network.resampling import by_loops, by_onnxruntime, model_of
from network.test_network import net_of

from winogen.errors import InvalidValue
from winogen.network import generate
from winogen.network import schedule as scheduling
from winogen.network.functions import EACH, REDUCTIONS
from winogen.network.loops import Along, Walk, paired, walked
from winogen.network.settled import settled
from winogen.onnx.model import Model
from winogen.onnx.probes import sized
from winogen.onnx.quantized import Refused

SHAPE = (2, 3, 5, 7)
RANDOM = np.random.default_rng(3)
# Of functions whose numbers must lie somewhere: where.
WITHIN = {
    "Acos": (-1, 1), "Acosh": (1, 4), "Asin": (-1, 1), "Atanh": (-0.9, 0.9), "Log": (0.1, 5),
    "Pow": (0.2, 3), "Reciprocal": (0.5, 2), "ReduceLogSum": (0.1, 3), "Sqrt": (0, 5),
    "Tan": (-1, 1),
}  # fmt: skip
LOGICAL = ("And", "Not", "Or", "Xor")
COMPARED = ("Equal", "Greater", "GreaterOrEqual", "IsNaN", "Less", "LessOrEqual")


def const(net, *values, dtype=np.int64):
    return net.constant(np.array(values, dtype))


def numbers(net, *shape):
    return net.constant(RANDOM.standard_normal(shape).astype(np.float32))


def limited(net, x, kind):
    low, high = (np.float32(one) for one in WITHIN.get(kind, (-1e9, 1e9)))
    if kind in ("ReduceMax", "ReduceMin"):  # onnxruntime finds a NaN or not, as it goes
        return net.node("Where", net.node("IsNaN", x), net.constant(low), x)
    return net.node("Clip", x, net.constant(low), net.constant(high)) if kind in WITHIN else x


def function(kind):
    """A function of maps of 3 axes, which no operator of maps is; of NaN and infinities, too."""

    def make(net, x):
        x = net.node("Squeeze", net.node("Slice", x, const(net, 0), const(net, 1), const(net, 0)),
                     const(net, 0))  # fmt: skip
        x = limited(net, x, kind)
        flags = [net.node("Cast", net.node("Greater", x, net.constant(np.float32(0.3))), to=9)]
        if kind in LOGICAL:
            flags += [net.node("Less", x, numbers(net, 1, 7))] * (kind != "Not")
            return net.node("Cast", net.node(kind, *flags), to=1)
        others = [numbers(net, 5, 1), numbers(net, 3, 1, 7)]
        operands = [x, *others[: len(EACH[kind].operands) - 1]]
        if EACH[kind].parameters:
            operands = [x]
        if kind == "Clip":
            operands[1:] = [net.constant(np.float32(-0.5)), net.constant(np.float32(0.25))]
        if kind == "Where":
            operands = [*flags, *operands[1:]]
        y = net.node(kind, *operands)
        return net.node("Cast", y, to=1) if kind in COMPARED else y

    return make


def node(kind, *constants, **attributes):
    return lambda net, x: net.node(kind, x, *(const(net, *one) for one in constants), **attributes)


OWN = ("gelu_tanh", "scaled", "square", "yes")
NEWER = ("Gelu", "Mish", "Swish")  # of later opsets
FUNCTIONS = {kind: function(kind) for kind in EACH if kind not in (*OWN, *NEWER)}
MOVED = {
    "transposed": node("Transpose", perm=[3, 1, 0, 2]),
    "reversed axes": node("Transpose"),
    "other sizes": node("Reshape", (7, -1, 6)),
    "other sizes of many axes": node("Reshape", (1, 2, 3, 1, 5, 7)),
    "a part": node("Slice", (1, 5), (-1, 0), (2, 3), (1, -2)),
    "backwards": node("Slice", (-1,), (-100,), (1,), (-1,)),
    "rows that are chosen": node("Gather", ((3, 0), (-1, 3)), axis=2),
    "evenly": node("Gather", (0, 2, 4), axis=2),
    "one of them": lambda net, x: net.node("Gather", x, net.constant(np.int64(1)), axis=3),
    "repeated": node("Tile", (1, 2, 1, 3)),
    "expanded": lambda net, x: net.node(
        "Expand", net.node("ReduceSum", x, const(net, 1)), const(net, 4, 1, 3, 1, 1)
    ),
    "a number expanded": lambda net, x: net.node(
        "Expand", net.node("ReduceSum", x, keepdims=0), const(net, 4, 2)
    ),
    "joined": lambda net, x: net.node("Concat", x, numbers(net, 2, 3, 5, 2), x, axis=-1),
    "in two": lambda net, x: net.node("Split", x, const(net, 7), axis=3),
    "padded": lambda net, x: net.node(
        "Pad", x, const(net, 1, 0, -1, 2, 0, 2, 0, -3), net.constant(np.float32(0.5))
    ),
    "reflected": lambda net, x: net.node(
        "Pad", x, const(net, 0, 2, 1, 0, 0, 0, 3, 2), mode="reflect"
    ),
    "the edge": lambda net, x: net.node("Pad", x, const(net, 1, 2, 1, 0, 0, 0, 3, 2), mode="edge"),
    "blocks of pixels": lambda net, x: net.node(
        "SpaceToDepth", net.node("Slice", x, const(net, 0, 0), const(net, 4, 6), const(net, 2, 3)),
        blocksize=2,
    ),
    "flattened from behind": node("Flatten", axis=3),
}  # fmt: skip
SUMS = {
    f"{kind} {axes} {keeps}": (
        lambda net, x, kind=kind, axes=axes, keeps=keeps: net.node(
            kind, limited(net, x, kind), *([const(net, *axes)] if kind == "ReduceSum" else []),
            keepdims=keeps, **({} if kind == "ReduceSum" else {"axes": axes}),
        )
    )
    for number, kind in enumerate(REDUCTIONS)
    for axes, keeps in [(([1], [0, 3], [-1, 1, 2])[number % 3], number % 2), ([2, 3], 0)]
}  # fmt: skip
JOINT = {
    "softmax of columns": node("Softmax", axis=3),
    "softmax of images": node("Softmax", axis=0),
    "logarithms": node("LogSoftmax", axis=2),
    "the last axes": lambda net, x: net.node(
        "LayerNormalization", x, numbers(net, 5, 7), numbers(net, 5, 7), axis=2
    ),
    "the last axis": lambda net, x: net.node("LayerNormalization", x, numbers(net, 7), axis=-1),
    "each channel of a signal": lambda net, x: net.node(
        "InstanceNormalization", net.node("Reshape", x, const(net, 2, 5, 21)), numbers(net, 5),
        numbers(net, 5),
    ),
    "mean and variance": node("MeanVarianceNormalization", axes=[1, 3]),
    "a batch of products": lambda net, x: net.node(
        "MatMul", x, net.node("Transpose", x, perm=[0, 1, 3, 2])
    ),
    "one matrix": lambda net, x: net.node("MatMul", x, numbers(net, 7, 301)),
    "broadcast products": lambda net, x: net.node("MatMul", numbers(net, 3, 4, 5), x),
    "a scaled product": lambda net, x: net.node(
        "Gemm", net.node("Reshape", x, const(net, 30, 7)), numbers(net, 11, 30), numbers(net, 11),
        alpha=0.5, beta=2.0, transA=1, transB=1,
    ),
    "a smaller picture": lambda net, x: net.node(
        "Resize", x, "", net.constant(np.float32([1, 1, 0.7, 1.9])), mode="linear",
        coordinate_transformation_mode="align_corners",
    ),
    "a larger one": lambda net, x: net.node(
        "Resize", x, "", "", const(net, 2, 3, 8, 9), mode="cubic"
    ),
    "nearest": lambda net, x: net.node(
        "Resize", x, "", "", const(net, 2, 3, 3, 12), nearest_mode="ceil"
    ),
    "a crop": lambda net, x: net.node(
        "Resize", x, net.constant(np.float32([0, 0, 0.2, -0.2, 1, 1, 1.1, 0.7])), "",
        const(net, 2, 3, 6, 9), mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=2.5,
    ),
    "largest and smallest": lambda net, x: net.node("Max", x, numbers(net, 7), numbers(net, 5, 1)),
    "means": lambda net, x: net.node("Mean", x, numbers(net, 1, 7), numbers(net, 3, 1, 1)),
}  # fmt: skip
LATER = {
    "Gelu": function("Gelu"),
    "Mish": function("Mish"),
    "gelu by tanh": lambda net, x: net.node("Gelu", net.node("Reshape", x, const(net, -1)),
                                            approximate="tanh"),
    "groups of a signal": lambda net, x: net.node(
        "GroupNormalization", net.node("Reshape", x, const(net, 1, 6, 35)), numbers(net, 2),
        numbers(net, 2), num_groups=2,
    ),
    "some axes": lambda net, x: net.node(
        "Resize", x, "", "", const(net, 11), axes=[3], mode="linear"
    ),
    "some ends": lambda net, x: net.node("Pad", x, const(net, 1, 2), "", const(net, -2)),
    "means by axes": lambda net, x: net.node("ReduceMean", x, const(net, 0, 2), keepdims=0),
}  # fmt: skip
GROUPS = {"functions": FUNCTIONS, "moved": MOVED, "sums": SUMS, "joint": JOINT}


def flat_of(cases, opset=17):
    """A model whose only output has those of all cases, one behind the other, and a layer's."""
    net = net_of()
    parts = {"layer": net.conv("x", 3, 2), **{name: make(net, "x") for name, make in cases.items()}}
    flat = [net.node("Reshape", part, const(net, -1)) for part in parts.values()]
    model = net.model(net.node("Concat", *flat, axis=0), shape=list(SHAPE), opset=opset)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model, dict(zip(parts, flat))


@pytest.fixture(params=["NCHW", "NHWC"])
def layout(request, monkeypatch):
    """Networks of this layout alone."""
    planned = scheduling.plan_steps

    def only(steps, buffers, outputs, settings):
        if settings.layout != request.param:
            raise InvalidValue("not now")
        return planned(steps, buffers, outputs, settings)

    monkeypatch.setattr(scheduling, "plan_steps", only)
    return request.param


@pytest.mark.parametrize("group", [*GROUPS, "later"])
def test_every_node_computes_what_onnxruntime_does(group, layout, tmp_path, make, ends):
    opset = 20 if group == "later" else 17
    model, flat = flat_of({**GROUPS, "later": LATER}[group], opset)
    files = generate(model, isa="generic", algorithm="direct")
    files.write(tmp_path)
    for name, data in files.contents.items():
        if "arrays" in name:
            assert max(map(len, data.decode().splitlines())) <= 100
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    x[0, 0, 0, :3] = np.inf, -np.inf, np.nan
    for part in flat.values():  # each on its own, to tell which is wrong
        model.graph.output.append(onnx.helper.make_tensor_value_info(part, 1, None))
    session = ort.InferenceSession(model.SerializeToString())
    whole, *parts = session.run(None, {"x": x})
    y = ends(tmp_path, x, whole.size, make)
    begin, wrong = 0, []
    for name, wanted in zip(flat, parts):
        found = y[begin : begin + wanted.size]
        begin += wanted.size
        finite = wanted[np.isfinite(wanted)]
        allowed = 2e-6 * max(1, np.abs(finite).max(initial=0))
        if not np.allclose(found, wanted, rtol=1e-6, atol=allowed, equal_nan=True):
            wrong.append((name, found[:9], wanted[:9]))
    assert not wrong


MODES = ("nearest", "linear", "cubic")
POSITIONS = (
    "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric",
    "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
FACTORS = (0.37, 0.5, 2 / 3, 1, 1.25, 1.5, 2, 2.5, 3)


@given(st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_resize_is_what_onnxruntime_makes(data):
    draw = data.draw
    size = draw(st.tuples(st.integers(1, 14), st.integers(1, 14)))
    mode, position = draw(st.sampled_from(MODES)), draw(st.sampled_from(POSITIONS))
    opset = draw(st.sampled_from((10, 11, 13, 19)))
    options = {"mode": mode}
    if opset > 10:
        options["coordinate_transformation_mode"] = position
        if mode == "nearest":
            options["nearest_mode"] = draw(st.sampled_from(ROUNDINGS))
        if mode == "cubic":
            options["cubic_coeff_a"] = draw(st.sampled_from((-0.75, -0.5)))
            options["exclude_outside"] = draw(st.integers(0, 1))
        if position == "tf_crop_and_resize":
            options["extrapolation_value"] = 3.0
            options["roi"] = [0, 0, 0.1, -0.2, 1, 1, draw(st.sampled_from((0.6, 1.3))), 0.9]
    if opset == 10 or draw(st.booleans()):
        options["scales"] = [1, 1, *draw(st.tuples(*[st.sampled_from(FACTORS)] * 2))]
    else:
        options["sizes"] = [1, 2, *draw(st.tuples(*[st.integers(1, 30)] * 2))]
    proto = model_of((1, 2, *size), opset, **options)
    x = np.random.default_rng(1).standard_normal((1, 2, *size)).astype(np.float32)
    try:
        wanted = by_onnxruntime(proto, x)
        found = by_loops(proto, x)
    except (Refused, RuntimeError, ValueError, ort.capi.onnxruntime_pybind11_state.Fail):
        return  # onnxruntime has fewer axes of cubic ones; sizes that nobody is sure of
    except Exception as refusal:
        assert "RUNTIME_EXCEPTION" in str(refusal) or "INVALID" in str(refusal).upper()
        return
    np.testing.assert_allclose(found, wanted, atol=3e-5)


def test_places_of_loops_are_joined_where_they_go_on():
    assert walked([Along(2, 0), Along(3, 1)], (30, 10)) == (0, [Walk(6, 10)])
    assert walked([Along(3, 0, 1, 0, (4, 2, 0))], (10,)) == (40, [Walk(3, -20)])
    assert walked([Along(3, 0, 1, 0, (0, 2, 2))], (10,)) == (0, [Walk(3, 10, (0, 2, 2))])
    assert walked([], ()) == (0, [Walk(1, 0)])
    table = Walk(6, 1, (0, 0, 1, 1, 2, 2))
    one, other = paired([table], [Walk(2, 30), Walk(3, 10)])
    assert one[-1].turns == other[-1].turns
    assert np.prod([w.turns for w in one]) == np.prod([w.turns for w in other])


def sizes_that_are_computed():
    """What exporters write for a picture that becomes as large as another."""
    net = net_of()
    y = net.conv("x", 4, 6, strides=[2, 2])
    z = net.conv("x", 4, 6)
    ends = net.node("Slice", net.node("Shape", z), const(net, 2), const(net, 4))
    heads = net.node("Slice", net.node("Shape", y), const(net, 0), const(net, 2))
    sizes = net.node("Concat", heads, ends, axis=0)
    y = net.node("Resize", y, "", "", sizes, mode="linear")
    return net.model(net.conv(net.node("Concat", y, z, axis=1), 12, 2))


def test_sizes_that_follow_from_the_input_are_constants(tmp_path, make):
    model = sizes_that_are_computed()
    with pytest.raises(InvalidValue, match="input_shapes: got none for x"):
        generate(model, isa="generic")
    generate(model, isa="generic", input_shapes={"x": (1, 4, 9, 11)}).write(tmp_path)
    assert make(tmp_path, "test").count(": right") == 1
    kept = settled(sized(Model(model, {"x": (1, 4, 9, 11)})))
    assert [one.op_type for one in kept.graph.node] == ["Conv", "Conv", "Resize", "Concat", "Conv"]


@pytest.mark.parametrize("isa", ["neon", "armv7"])
def test_arrays_on_other_cpus(isa, tmp_path, make):
    cases = {name: JOINT[name] for name in ("softmax of columns", "a crop", "one matrix")}
    generate(flat_of(cases)[0], isa=isa, algorithm="direct").write(tmp_path)
    assert make(tmp_path, "test", isa=isa).count(": right") == 1


def refused(make, opset=17):
    net = net_of()
    y = make(net, net.conv("x", 3, 4))
    model = net.model(y, shape=list(SHAPE), opset=opset)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize(
    "make, opset, message",
    [
        (lambda net, x: net.node("Resize", x, "", net.constant(np.float32([1, 1, 0.5, 0.5])),
                                 mode="linear", antialias=1, name="half"),
         18, r"nodes of opset 18 that are not generated: half \(Resize: antialias\); allowed:"),
        (lambda net, x: net.node("CumSum", x, net.constant(np.int64(1)), name="sums"),
         17, r"sums \(CumSum\); allowed"),
        (lambda net, x: net.node("Cast", net.node("ArgMax", x, axis=1, name="best"), to=1),
         17, r"best \(ArgMax\), cast_2 \(Cast: .* has numbers of int64\)"),
        (lambda net, x: net.node("MatMul", x, net.constant(np.ones(7, np.float32)), name="m"),
         17, r"m \(MatMul: it multiplies by a vector\)"),
    ],
)  # fmt: skip
def test_what_is_not_generated_says_why(make, opset, message):
    with pytest.raises(InvalidValue, match=message):
        generate(refused(make, opset), isa="generic")
