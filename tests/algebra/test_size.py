"""Expressions that would take for ever are refused from their text, and so are odd characters."""

from fractions import Fraction

import pytest

from winogen import WinogenError, conv2d
from winogen.algebra import as_scalar, cook_toom, default_points, winograd
from winogen.algebra.parse import split_list
from winogen.errors import InvalidValue

NESTED = "sqrt(1+" * 12 + "1" + ")" * 12

NUMBERS = [
    ("sqrt(2)^(10^11)", "exponent: 100000000000", "at most 200"),
    ("sqrt(2)^(-10^11)", "exponent: -100000000000", "at most 200"),
    ("(1+sqrt(2))^(10^7)", "exponent: 10000000", "at most 200"),
    ("((2^200)^200)^200", "digits", "at most 2466 digits"),
    ("*".join(["10^200"] * 25), "digits", "at most 2466 digits"),
    ("+".join(["1/10^199"] * 25), "digits", "at most 2466 digits"),
    ("cos(pi/10007)", "degree up to 10007", "at most 32"),
    ("root(2,1000)", "degree up to 1000", "at most 32"),
    ("10^(1/1000003)", "degree up to 1000003", "at most 32"),
    (NESTED, "degree up to 64", "at most 32"),
    ("root(2,4)+root(3,8)", "degree 32", "at most 16"),
    ("-" * 900 + "1", "nested", "at most 250"),
    ("root(1,2,3,4)", "root() of 4 arguments", "two arguments"),
    ("sqrt(2,3)", "sqrt() of 2 arguments", "one argument"),
    ("root(2,1/2)", "index 1/2", "integer k >= 1"),
    ("cos(sqrt(2)*pi)", "angle", "rational multiples of pi"),
    ("2^sqrt(2)", "exponent", "sqrt(2)/2"),
    ("sqrt(pi)", "pi outside of an angle", "algebraic"),
]


@pytest.mark.parametrize(("text", "why", "allowed"), NUMBERS, ids=[t[0][:30] for t in NUMBERS])
def test_numbers(text, why, allowed):
    with pytest.raises(InvalidValue) as error:
        cook_toom(2, 3, ["0", "1", "-1", text])
    message = str(error.value)
    assert message.startswith("points: got ") and len(message) < 300
    assert why in message and allowed in message.partition("; allowed: ")[2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("*".join(["(x+1)^200"] * 150), ["degree", "at most 200"]),
        ("+".join(["(x+1)^200"] * 150), ["products", "100,000 multiplications"]),
        ("(x + sqrt(2)^(10^11))", ["exponent", "at most 200"]),
        ("x + root(2,1000)", ["degree up to 1000", "at most 32"]),
        ([1] + [0] * 400, ["degree 400", "at most 200"]),
        ([1, Fraction(1, 10**2600)], ["2600 digits", "at most 2466"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_moduli(text, words):
    with pytest.raises(InvalidValue) as error:
        winograd(2, 3, ["x", "x-1", text])
    assert str(error.value).startswith("moduli: got ")
    assert all(word in str(error.value) for word in words)


def test_what_is_useful_stays_allowed():
    for text in ("cos(pi/32)", "(1+sqrt(2))^100", "sqrt(1+sqrt(1+sqrt(2)))", "tan(pi/16)"):
        assert as_scalar(text) > 0
    assert as_scalar("(1+root(3,8)+sqrt(2))^4/9") == as_scalar("(1+root(3,8)+sqrt(2))") ** 4 / 9
    assert as_scalar("cos(pi/9)+cos(5*pi/9)+cos(7*pi/9)") == 0
    assert as_scalar("2*cos(2*pi*(1/6)) + pi - pi") == 1
    assert cook_toom(3, 3, "sqrt(2), sqrt(3), sqrt(5), 0, 1").verify()


def test_messages_hold_numbers_that_python_does_not_print():
    huge = 10**5000  # str(huge) raises
    for call in (
        lambda: cook_toom(2, 3, [0, 1, huge, "inf"]),
        lambda: cook_toom(2, 3, [0, 1, Fraction(1, huge)]),
        lambda: cook_toom(huge, 3, "0,1"),
        lambda: cook_toom(-huge, 3),
        lambda: default_points(huge, 3),
        lambda: winograd(huge, 3, "x,x-1"),
    ):
        with pytest.raises(InvalidValue, match="5000 digits"):
            call()
    with pytest.raises(InvalidValue, match=r"points: got 3 \(.*digits.*allowed: 4 = m"):
        cook_toom(2, 3, [0, 1, 10**2000])


def test_matrices_that_python_could_not_print_are_refused():
    with pytest.raises(InvalidValue, match="points: .*matrices .* allowed: .* 4214 digits"):
        cook_toom(4, 3, [0, 1, *(k * 10**2000 for k in (1, 2, 3)), "inf"])


def test_points_of_conv2d():
    import numpy

    images, weight = numpy.ones((1, 1, 8, 8), "f4"), numpy.ones((1, 1, 3, 3), "f4")
    for points in ("*".join(["10^200"] * 25), [10**5000, 0, 1, -1]):
        with pytest.raises(WinogenError, match="points: "):
            conv2d(images, weight, algorithm="winograd2d", tile=2, points=points)


@pytest.mark.parametrize("character", ["#", "\n", "\r", "\t", "\x00", "\x0b", "\u2028"])
def test_comments_and_lines_are_not_part_of_numbers(character):
    for text in (f"1 {character} 2", f"1{character}"):
        with pytest.raises(InvalidValue, match="cannot be printed"):
            as_scalar(text)
        with pytest.raises(InvalidValue, match="cannot be printed"):
            winograd(2, 3, ["x", "x-1", "x^2" + text])
    with pytest.raises(InvalidValue):
        cook_toom(2, 3, f"0,1,-1,inf{character}")


@pytest.mark.parametrize("point", ["i", "I", "1j", "2j", "1+i", "j", "sqrt(-1)", 1j, 1 + 2j])
def test_complex_points_name_the_modulus(point):
    with pytest.raises(WinogenError, match=r"allowed: real numbers; .* modulus x\^2\+1") as error:
        cook_toom(2, 3, [0, 1, -1, point])
    assert str(error.value).startswith("points: ")


def test_commas_within_nested_parentheses():
    assert split_list("0,root(2,(3)),(1),inf") == ["0", "root(2,(3))", "(1)", "inf"]
    assert split_list(")),1") == ["))", "1"]
