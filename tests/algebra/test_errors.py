"""What is refused, and that the message names the value and what is allowed."""

from fractions import Fraction

import numpy
import pytest
import sympy

from winogen import WinogenError
from winogen.algebra import BilinearAlgorithm, as_scalar, cook_toom, default_points, nest, winograd

NAN, INF = float("nan"), float("inf")

POINTS = [
    ([0, 1, -1], ValueError, ["got 3", "0, 1, -1", "4"]),
    ([0, 1, -1, 2, "inf"], ValueError, ["got 5", "4"]),
    ([], ValueError, ["got 0", "4"]),
    ("", ValueError, ["got 0", "4"]),
    ([0, "1/2", Fraction(2, 4), "inf"], ValueError, ["1/2 twice", "distinct"]),
    ("0, sqrt(2)/2, 1/sqrt(2), inf", ValueError, ["sqrt(2)/2 twice"]),
    (["inf", 0, 1, INF], ValueError, ["inf twice"]),
    ([0, 1, -1, NAN], TypeError, ["nan", "exact"]),
    ([0, 1, -1, -INF], TypeError, ["-inf", "exact"]),
    ([0, 1, -1, 0.5], TypeError, ["0.5", "'1/2'"]),
    ([0, 1, -1, True], TypeError, ["True"]),
    ([0, 1, -1, None], TypeError, ["None"]),
    ([0, 1, -1, 1j], TypeError, ["1j"]),
    ([0, 1, -1, "nan"], ValueError, ["'nan'", "allowed"]),
    ([0, 1, -1, "x"], ValueError, ["'x'", "allowed"]),
    ([0, 1, -1, "1/0"], ValueError, ["'1/0'", "zero"]),
    ([0, 1, -1, "pi"], ValueError, ["pi", "algebraic"]),
    ([0, 1, -1, "cos(1)"], ValueError, ["cos(1)", "algebraic"]),
    ([0, 1, -1, "sqrt(-2)"], ValueError, ["real"]),
    ([0, 1, -1, sympy.I], ValueError, ["'I'"]),
    ([0, 1, -1, sympy.nan], ValueError, ["'nan'"]),
    ([0, 1, -1, "__import__('os')"], ValueError, ["__import__"]),
    ([0, 1, -1, "9**9**9"], ValueError, ["too large"]),
    ([0, 1, -1, "1" * 5000], ValueError, ["longer"]),
    ([0, 1, -1, "(" * 500], ValueError, ["not an expression"]),
    (7, TypeError, ["7", "list"]),
]


@pytest.mark.parametrize(("points", "kind", "words"), POINTS, ids=[str(p[0])[:40] for p in POINTS])
def test_points(points, kind, words):
    with pytest.raises(WinogenError) as caught:
        cook_toom(2, 3, points)
    assert isinstance(caught.value, kind)
    for word in ["points", "allowed", *words]:
        assert word in str(caught.value)


MODULI = [
    ("x, x-1, x^2-1", ["x - 1", "x^2 - 1", "share the factor x - 1"]),
    ("x^2+1, x^2+1", ["share the factor x^2 + 1"]),
    ("x, inf, inf, x+1", ["'inf' twice"]),
    ("x, x-1, x+1", ["total degree 3", "4", "append 'inf'"]),
    ("x, x-1, x^2+1, inf", ["total degree 5", "4"]),
    ("x, 3, x^2+1", ["'3'", "constant"]),
    ("x, 0, x^2+1", ["'0'", "constant"]),
    ("x, x-1, y^2+1", ["'y' is unknown"]),
    ("x, x-1, x^2.5", ["allowed form"]),
    ("x, x-1, 2^x", ["not a whole number"]),
    ("x, x-1, x^(-1)", ["exponent"]),
    ("x, x-1, ((x+1)^200)^200", ["exponent"]),
    ("x, x-1, 1/x", ["1/x"]),
    (["x", "x-1", [1, 0, 0.5]], ["0.5", "exact"]),
    (["x", "x-1", 5], ["5", "int"]),
    (["x", "x-1", sympy.Symbol("x") * sympy.Symbol("y") + 1], ["one unknown"]),
    (["x", "x-1", sympy.sin(sympy.Symbol("x"))], ["polynomials"]),
    (None, ["None"]),
]


@pytest.mark.parametrize(("moduli", "words"), MODULI, ids=[str(p[0])[:40] for p in MODULI])
def test_moduli(moduli, words):
    with pytest.raises(WinogenError) as caught:
        winograd(2, 3, moduli)
    for word in ["moduli", "allowed", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("make", [cook_toom, default_points, lambda m, r: winograd(m, r, "x")])
@pytest.mark.parametrize(
    ("size", "kind", "words"),
    [
        ((0, 3), ValueError, ["m: got 0", ">= 1"]),
        ((2, -1), ValueError, ["r: got -1", ">= 1"]),
        ((2.0, 3), TypeError, ["m: got 2.0", "integer"]),
        ((2, NAN), TypeError, ["r: got nan", "integer"]),
        ((True, 3), TypeError, ["m: got True"]),
        (("2", 3), TypeError, ["m: got '2'"]),
    ],
)
def test_sizes(make, size, kind, words):
    with pytest.raises(kind) as caught:
        make(*size)
    assert isinstance(caught.value, WinogenError)
    assert all(word in str(caught.value) for word in words)


def test_beyond_the_default_points():
    with pytest.raises(ValueError, match=r"n = m \+ r - 1 = 19; allowed: n <= 18"):
        default_points(17, 3)
    assert cook_toom(17, 3).moduli and cook_toom(17, 3, range(19)).verify()


def test_scale_refuses_what_would_change_the_result():
    f = cook_toom(2, 3)
    for arguments, words in [
        ({"input": [1, 2, 3]}, "input: got 3 factors; allowed: 4"),
        ({"output": [1, 0, 1, 1]}, "output: got the factor 0"),
        ({"input": [2] * 4, "filter": [1] * 4, "output": [1] * 4}, "multiply to 2"),
        ({"input": [0.5] * 4}, "input: got the float 0.5"),
    ]:
        with pytest.raises(WinogenError, match=words):
            f.scale(**arguments)


def test_nest_takes_two_algorithms_of_one_form():
    f = cook_toom(2, 3)
    with pytest.raises(TypeError, match="w: got 3"):
        nest(f, 3)
    with pytest.raises(ValueError, match="the same form"):
        nest(f, f.transpose())
    with pytest.raises(ValueError, match="d: .*4 x 4"):
        nest(f, f)([[1] * 3] * 3, [[1] * 4] * 3)


def test_algorithm_refuses_wrong_shapes():
    data = cook_toom(2, 3).to_dict()
    for key, value, words in [
        ("AT", data["AT"][:1], "at: got 1 rows of 4; allowed: 2 rows of 4"),
        ("BT", [row[:3] for row in data["BT"]], "bt: got 4 rows of 3"),
        ("G", [["1", "x", "1"]] * 4, "g: got 'x'"),
        ("G", "1", "g: got '1'"),
        ("m", 0, "m: got 0"),
        ("form", "iir", "form: got 'iir'"),
    ]:
        with pytest.raises(WinogenError, match=words):
            BilinearAlgorithm.from_dict({**data, key: value})
    with pytest.raises(ValueError, match="no key 'BT'"):
        BilinearAlgorithm.from_dict({k: v for k, v in data.items() if k != "BT"})
    with pytest.raises(TypeError, match="data: got a list"):
        BilinearAlgorithm.from_dict([])
    with pytest.raises(ValueError, match="d: got 3 values; allowed: 4"):
        cook_toom(2, 3)([1, 2, 3], [1, 2, 3])


def test_scalar_refusal_names_the_argument():
    with pytest.raises(TypeError, match="tile: got the float 0.1"):
        as_scalar(0.1, "tile")


def test_numpy_floats_are_refused_like_others():
    """float32 is no float of Python, and no Fraction could be made of it for the suggestion."""
    with pytest.raises(TypeError, match="tile: got the float .* perhaps '1/10'"):
        as_scalar(numpy.float32(0.1), "tile")
