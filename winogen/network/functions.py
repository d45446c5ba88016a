"""Functions of numbers that loops over arrays compute: their C, and the operators that they are.

Yes and no are 1 and 0. A NaN stays one, as in onnxruntime, but where numbers are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Function(NamedTuple):
    """A function of up to three numbers a, b and c."""

    c: str
    operands: str = "a"
    parameters: tuple[tuple[str, float], ...] = ()  # attributes that are b and c, their defaults


_TANH = "0.5f * a * (1 + tanhf(0.79788456f * (a + 0.044715f * a * a * a)))"

# By the operator's name where it is one; others begin with a small letter.
EACH: Mapping[str, Function] = {
    "Abs": Function("fabsf(a)"),
    "Acos": Function("acosf(a)"),
    "Acosh": Function("acoshf(a)"),
    "Add": Function("a + b", "ab"),
    "And": Function("a != 0 && b != 0 ? 1.0f : 0.0f", "ab"),
    "Asin": Function("asinf(a)"),
    "Asinh": Function("asinhf(a)"),
    "Atan": Function("atanf(a)"),
    "Atanh": Function("atanhf(a)"),
    "Ceil": Function("ceilf(a)"),
    "Celu": Function("a < 0 ? b * expm1f(a / b) : a", "ab", (("alpha", 1.0),)),
    "Clip": Function("a < b ? b : a > c ? c : a", "abc"),
    "Cos": Function("cosf(a)"),
    "Cosh": Function("coshf(a)"),
    "Div": Function("a / b", "ab"),
    "Elu": Function("a < 0 ? b * expm1f(a) : a", "ab", (("alpha", 1.0),)),
    "Equal": Function("a >= b && a <= b ? 1.0f : 0.0f", "ab"),
    "Erf": Function("erff(a)"),
    "Exp": Function("expf(a)"),
    "Floor": Function("floorf(a)"),
    "Gelu": Function("0.5f * a * (1 + erff(0.70710678f * a))"),
    "Greater": Function("a > b ? 1.0f : 0.0f", "ab"),
    "GreaterOrEqual": Function("a >= b ? 1.0f : 0.0f", "ab"),
    "HardSigmoid": Function("limited(b * a + c)", "abc", (("alpha", 0.2), ("beta", 0.5))),
    "HardSwish": Function("a * limited(a / 6 + 0.5f)"),
    "IsNaN": Function("isnan(a) ? 1.0f : 0.0f"),
    "LeakyRelu": Function("a < 0 ? b * a : a", "ab", (("alpha", 0.01),)),
    "Less": Function("a < b ? 1.0f : 0.0f", "ab"),
    "LessOrEqual": Function("a <= b ? 1.0f : 0.0f", "ab"),
    "Log": Function("logf(a)"),
    "Max": Function("a > b || isnan(a) ? a : b", "ab"),
    "Min": Function("a < b || isnan(a) ? a : b", "ab"),
    "Mish": Function("a * tanhf(a > 0 ? a + log1pf(expf(-a)) : log1pf(expf(a)))"),
    "Mul": Function("a * b", "ab"),
    "Neg": Function("-a"),
    "Not": Function("a != 0 ? 0.0f : 1.0f"),
    "Or": Function("a != 0 || b != 0 ? 1.0f : 0.0f", "ab"),
    "PRelu": Function("a < 0 ? b * a : a", "ab"),
    "Pow": Function("powf(a, b)", "ab"),
    "Reciprocal": Function("1 / a"),
    "Relu": Function("a < 0 ? 0 : a"),
    "Round": Function("rintf(a)"),
    "Selu": Function(
        "c * (a > 0 ? a : b * expm1f(a))",
        "abc",
        (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    ),
    "Sigmoid": Function("1 / (1 + expf(-a))"),
    "Sign": Function("isnan(a) ? a : (float)((a > 0) - (a < 0))"),
    "Sin": Function("sinf(a)"),
    "Sinh": Function("sinhf(a)"),
    "Softplus": Function("a > 0 ? a + log1pf(expf(-a)) : log1pf(expf(a))"),
    "Softsign": Function("a / (1 + fabsf(a))"),
    "Sqrt": Function("sqrtf(a)"),
    "Sub": Function("a - b", "ab"),
    "Swish": Function("a / (1 + expf(-b * a))", "ab", (("alpha", 1.0),)),
    "Tan": Function("tanf(a)"),
    "Tanh": Function("tanhf(a)"),
    "ThresholdedRelu": Function("a > b ? a : 0", "ab", (("alpha", 1.0),)),
    "Where": Function("a != 0 ? b : c", "abc"),
    "Xor": Function("(a != 0) != (b != 0) ? 1.0f : 0.0f", "ab"),
    "gelu_tanh": Function(_TANH),
    "scaled": Function("a * b + c", "abc"),
    "square": Function("a * a"),
    "yes": Function("a != 0 ? 1.0f : 0.0f"),
}


class Reduction(NamedTuple):
    """Numbers as one: what a sum begins with, what each adds to it, and what it becomes at last."""

    begin: str
    add: str  # of the sum s and a number x, doubles
    end: str = "s"  # and of how many there were, n


REDUCTIONS: Mapping[str, Reduction] = {
    "ReduceL1": Reduction("0", "s + fabs(x)"),
    "ReduceL2": Reduction("0", "s + x * x", "sqrt(s)"),
    "ReduceLogSum": Reduction("0", "s + x", "log(s)"),
    "ReduceMax": Reduction("-INFINITY", "x > s || isnan(x) ? x : s"),
    "ReduceMean": Reduction("0", "s + x", "s / (double)n"),
    "ReduceMin": Reduction("INFINITY", "x < s || isnan(x) ? x : s"),
    "ReduceProd": Reduction("1", "s * x"),
    "ReduceSum": Reduction("0", "s + x"),
    "ReduceSumSquare": Reduction("0", "s + x * x"),
}


def in_c(name: str) -> str:
    """Return what C calls a function.

    >>> in_c("GreaterOrEqual"), in_c("gelu_tanh"), in_c("ReduceL2")
    ('greater_or_equal', 'gelu_tanh', 'reduce_l2')
    """
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    known = {"p_relu": "prelu", "is_na_n": "is_nan"}
    return known.get(words.removeprefix("_"), words.removeprefix("_"))
