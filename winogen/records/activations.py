"""The activations: one entry says everything that anyone must know of one.

Arguments of `conv2d`, kernels, the runtime without Python, PyTorch, ONNX, the command line, docs
and tests read `ACTIVATIONS`. CONTRIBUTING.md explains how to add one. No framework is imported:
formulas are functions of the library that computes them, and frameworks appear by their names.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from winogen.records.activation import Activation, Argument, FrameworkFunction


def _limits(low: str, high: str, default: tuple[Any, Any], *only: float) -> tuple[Argument, ...]:
    """The limits of a function that clips: the names of "clip", or `only` some."""
    if only:
        return Argument(low, default[0], only=only[0]), Argument(high, default[1], only=only[1])
    return Argument(low, default[0], "lo"), Argument(high, default[1], "hi")


def _bounds(*only: float) -> tuple[Argument, ...]:
    """The limits of ONNX's Clip."""
    return _limits("min", "max", (-math.inf, math.inf), *only)


def _clipping(*only: float) -> tuple[FrameworkFunction, ...]:
    """torch's functions that clip."""
    return (
        FrameworkFunction(
            "hardtanh", "Hardtanh", _limits("min_val", "max_val", (-1.0, 1.0), *only)
        ),
        FrameworkFunction("clamp clip", "", _limits("min", "max", (None, None), *only)),
    )


def _gradient_of_mish(g: Any, y: Any, tanh: Any, sigmoid: Any) -> Any:
    return g * (tanh + y * sigmoid * (1 - tanh * tanh))


_ENTRIES = (
    Activation(
        "relu",
        means="max(y, 0)",
        c="relu_of(y)",
        formula=lambda f, y: f.where(y < 0, 0, y),
        torch=(FrameworkFunction("relu", "ReLU"),),
        backward=lambda aten, g, y: aten.threshold_backward(g, y, 0),
        by_output=lambda: True,
        onnx=(FrameworkFunction("Relu"), FrameworkFunction("Clip", arguments=_bounds(0, math.inf))),
    ),
    Activation(
        "leaky_relu",
        means="y where y >= 0, else slope * y",
        c="choose(y < (vec){0}, a * y, y)",
        formula=lambda f, y, slope: f.where(y < 0, slope * y, y),
        torch=(
            FrameworkFunction(
                "leaky_relu", "LeakyReLU", (Argument("negative_slope", 0.01, "slope"),)
            ),
        ),
        backward=lambda aten, g, y, slope: aten.leaky_relu_backward(g, y, slope, slope >= 0),
        by_output=lambda slope: slope >= 0,
        onnx=(FrameworkFunction("LeakyRelu", arguments=(Argument("alpha", 0.01, "slope"),)),),
        units=0.5,
        parameters=("slope",),
    ),
    Activation(
        "prelu",
        means="y where y >= 0, else slope * y, a slope for each filter",
        c="choose(y < (vec){0}, a * y, y)",
        formula=lambda f, y, slopes: f.where(y < 0, slopes * y, y),
        torch=(FrameworkFunction("prelu", "PReLU", (Argument("weight", None, "slopes"),)),),
        # Of the slopes as well, for each number.
        backward=lambda aten, g, y, slopes: aten._prelu_kernel_backward(g, y, slopes),
        onnx=(FrameworkFunction("PRelu", arguments=(Argument("slope", None, "slopes"),)),),
        units=0.5,
        parameters=("slopes",),
        per_filter=True,
    ),
    Activation(
        "clip",
        means="y, but at least lo and at most hi",
        c="choose(y < a, a, choose(y > b, b, y))",
        formula=lambda f, y, lo, hi: f.where(y < lo, lo, f.where(y > hi, hi, y)),
        torch=_clipping(),
        backward=lambda aten, g, y, lo, hi: aten.hardtanh_backward(g, y, lo, hi),
        by_output=lambda lo, hi: True,
        onnx=(FrameworkFunction("Clip", arguments=_bounds()),),
        parameters=("lo", "hi"),
        check="lo <= hi",
        allows=lambda lo, hi: lo <= hi,
    ),
    Activation(
        "relu6",
        means="max(y, 0), but at most 6",
        c="at_most(6 + (vec){0}, relu_of(y))",
        formula=lambda f, y: f.where(y < 0, 0, f.where(y > 6, 6, y)),
        torch=(FrameworkFunction("relu6", "ReLU6"), *_clipping(0, 6)),
        backward=lambda aten, g, y: aten.hardtanh_backward(g, y, 0, 6),
        by_output=lambda: True,
        onnx=(FrameworkFunction("Clip", arguments=_bounds(0, 6)),),
    ),
    Activation(
        "hardswish",
        means="y * min(max(y + 3, 0), 6) / 6",
        # The factor first: six times a large number may be infinite.
        c="y * (choose(y > 3, 6 + (vec){0}, relu_of(y + 3)) / 6)",
        formula=lambda f, y: y * (f.where(y < -3, 0, f.where(y > 3, 6, y + 3)) / 6),
        torch=(FrameworkFunction("hardswish", "Hardswish"),),
        backward=lambda aten, g, y: aten.hardswish_backward(g, y),
        onnx=(FrameworkFunction("HardSwish"),),
        units=2,
    ),
    Activation(
        "silu",
        means="y / (1 + exp(-y))",
        c="silu_of(y)",
        formula=lambda f, y: y / (1 + f.exp(-y)),
        torch=(FrameworkFunction("silu", "SiLU"),),
        backward=lambda aten, g, y: g * aten.sigmoid(y) * (1 + y * aten.sigmoid(-y)),
        onnx=(FrameworkFunction("Swish", arguments=(Argument("alpha", 1.0, only=1.0),)),),
        units=4,
        needs=("exp", "gated"),
        function="INLINE vec silu_of(vec y) { return gated(y, y); }",
    ),
    Activation(
        "gelu",
        means="y * Phi(y), Phi of normal data",
        c="gelu_of(y)",
        formula=lambda f, y: y * f.erfc(-math.sqrt(0.5) * y) / 2,
        torch=(FrameworkFunction("gelu", "GELU", (Argument("approximate", "none", only="none"),)),),
        backward=lambda aten, g, y: aten.gelu_backward(g, y, approximate="none"),
        onnx=(
            FrameworkFunction("Gelu", arguments=(Argument("approximate", "none", only="none"),)),
        ),
        units=5,
        needs=("exp", "gelu"),
    ),
    Activation(
        "gelu_tanh",
        means="y / 2 * (1 + tanh(sqrt(2 / pi) * (y + 0.044715 * y^3)))",
        c="gelu_tanh_of(y)",
        formula=lambda f, y: y / (1 + f.exp(-math.sqrt(8 / math.pi) * y * (1 + 0.044715 * y * y))),
        torch=(FrameworkFunction("gelu", "GELU", (Argument("approximate", "none", only="tanh"),)),),
        backward=lambda aten, g, y: aten.gelu_backward(g, y, approximate="tanh"),
        onnx=(
            FrameworkFunction("Gelu", arguments=(Argument("approximate", "none", only="tanh"),)),
        ),
        units=8,
        more=", and 4.8 * |y + 0.0447 * y^3| more for y < 0",
        needs=("exp", "gated"),
        function="""\
INLINE vec gelu_tanh_of(vec y)
{
    return gated(y, (real)1.5957691216057308 * y * ((real)1 + (real)0.044715 * y * y));
}""",
        spelling=("gelu", "tanh"),
    ),
    Activation(
        "sigmoid",
        means="1 / (1 + exp(-y))",
        c="sigmoid_of(y)",
        formula=lambda f, y: 1 / (1 + f.exp(-y)),
        torch=(FrameworkFunction("sigmoid", "Sigmoid"),),
        backward=lambda aten, g, y: aten.sigmoid_backward(g, y),
        by_output=lambda: True,
        onnx=(FrameworkFunction("Sigmoid"),),
        units=3,
        needs=("exp",),
        function="""\
INLINE vec sigmoid_of(vec y)
{
    const vec e = exp_of(-magnitude(y), NOTHING);
    return choose(y < (vec){0}, e, broadcast(1)) / (1 + e);
}""",
    ),
    Activation(
        "tanh",
        means="(exp(y) - exp(-y)) / (exp(y) + exp(-y))",
        c="tanh_of(y)",
        formula=lambda f, y: f.tanh(y),
        torch=(FrameworkFunction("tanh", "Tanh"),),
        backward=lambda aten, g, y: aten.tanh_backward(g, y),
        by_output=lambda: True,
        onnx=(FrameworkFunction("Tanh"),),
        units=3,
        needs=("expm1",),
        function="""\
/* By |exp(-2 |y|) - 1|, with the sign of y. */
INLINE vec tanh_of(vec y)
{
    const vec less = magnitude(expm1_of(-2 * magnitude(y)));
    const int_vec sign = (int_vec)y & (int_vec)broadcast((real)-0.0);
    return (vec)((int_vec)(less / (2 - less)) | sign);
}""",
    ),
    Activation(
        "softplus",
        means="log(1 + exp(y))",
        c="softplus_of(y)",
        formula=lambda f, y: f.where(y > 0, y + f.log1p(f.exp(-y)), f.log1p(f.exp(y))),
        torch=(
            FrameworkFunction(
                "softplus",
                "Softplus",
                (Argument("beta", 1, only=1), Argument("threshold", 20, only=20)),
            ),
        ),
        backward=lambda aten, g, y: aten.softplus_backward(g, y, 1, 20),
        onnx=(FrameworkFunction("Softplus"),),
        units=4,
        needs=("exp", "log1p"),
        function="""\
INLINE vec softplus_of(vec y)
{
    return relu_of(y) + log1p_of(exp_of(-magnitude(y), NOTHING));
}""",
    ),
    Activation(
        "hard_sigmoid",
        means="alpha * y + beta, but at least 0 and at most 1",
        c="hard_sigmoid_of(y, a, b)",
        formula=lambda f, y, alpha, beta: f.where(
            alpha * y + beta < 0, 0, f.where(alpha * y + beta > 1, 1, alpha * y + beta)
        ),
        torch=(FrameworkFunction("hardsigmoid", "Hardsigmoid"),),
        backward=lambda aten, g, y, alpha, beta: aten.hardtanh_backward(alpha * g, y, 0, 1),
        by_output=lambda alpha, beta: True,
        onnx=(
            FrameworkFunction(
                "HardSigmoid",
                arguments=(Argument("alpha", 0.2, "alpha"), Argument("beta", 0.5, "beta")),
            ),
        ),
        units=2,
        parameters=("alpha", "beta"),
        defaults=(1 / 6, 1 / 2),
        check="1e-18 <= alpha <= 1e18 and -1e18 <= beta <= 1e18",
        allows=lambda alpha, beta: 1e-18 <= alpha <= 1e18 and -1e18 <= beta <= 1e18,
        function="""\
/* As alpha (y + beta / alpha), which of 1/6 and 1/2 is exact where it vanishes, at -3. */
INLINE vec hard_sigmoid_of(vec y, vec alpha, vec beta)
{
    const vec line = alpha * (y + beta / alpha);
    return at_most(broadcast(1), relu_of(line));
}""",
    ),
    Activation(
        "mish",
        means="y * tanh(log(1 + exp(y)))",
        c="mish_of(y)",
        formula=lambda f, y: y * f.tanh(f.log1p(f.exp(y))),
        torch=(FrameworkFunction("mish", "Mish"),),
        backward=lambda aten, g, y: _gradient_of_mish(
            g, y, aten.tanh(aten.softplus(y)), aten.sigmoid(y)
        ),
        onnx=(FrameworkFunction("Mish"),),
        units=6,
        needs=("exp",),
        function="""\
/* By e = exp(-|y|) = h h: tanh(log(1 + exp(y))) is (1 + 2 e) / (1 + 2 e + 2 e e), or, for y < 0,
 * e (2 + e) / (2 + e (2 + e)). There e vanishes before y e does, and h does not. */
INLINE vec mish_of(vec y)
{
    const vec h = exp_of((real)-0.5 * magnitude(y), NOTHING), e = h * h;
    const vec factor = choose(y < (vec){0}, h, broadcast(1));
    const vec above = choose(y < (vec){0}, 2 + e, 1 + 2 * e);
    const vec below = choose(y < (vec){0}, 2 + e * (2 + e), 1 + 2 * e * (1 + e));
    return y * factor * (above / below) * factor;
}""",
    ),
    Activation(
        "elu",
        means="y where y >= 0, else alpha * (exp(y) - 1)",
        c="choose(y < (vec){0}, a * expm1_of(y), y)",
        formula=lambda f, y, alpha: f.where(y < 0, alpha * f.expm1(y), y),
        torch=(FrameworkFunction("elu", "ELU", (Argument("alpha", 1.0, "alpha"),)),),
        backward=lambda aten, g, y, alpha: aten.elu_backward(g, alpha, 1, 1, alpha >= 0, y),
        by_output=lambda alpha: alpha >= 0,
        onnx=(FrameworkFunction("Elu", arguments=(Argument("alpha", 1.0, "alpha"),)),),
        units=2,
        parameters=("alpha",),
        defaults=(1.0,),
        needs=("expm1",),
    ),
)
ACTIVATIONS = {one.name: replace(one, code=code) for code, one in enumerate(_ENTRIES, 1)}


def spelled(name: str | None, parameters: tuple[Any, ...] = ()) -> Any:
    """Return an activation as `conv2d` takes it, of its name and its parameters.

    >>> spelled("leaky_relu", (0.1,)), spelled("gelu_tanh"), spelled("relu")
    (('leaky_relu', 0.1), ('gelu', 'tanh'), 'relu')
    """
    if name in ACTIVATIONS and ACTIVATIONS[name].spelling:
        return ACTIVATIONS[name].spelling
    return (name, *parameters) if parameters else name
