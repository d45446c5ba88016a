"""Any U, V, W: algorithms that ship, drawn ones, misprints, files, formulas."""

import json
import pickle
from dataclasses import replace
from importlib.resources import files
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import (
    BilinearMap,
    Decomposition,
    by_tensor,
    complex_product,
    cook_toom,
    correlation,
    cyclic_convolution,
    known,
    matrix_product,
    nest,
    polynomial_product,
    product_modulo,
    read_file,
    strided,
    winograd,
)
from winogen.algebra.maps import named_map
from winogen.algebra.reading import read
from winogen.errors import InvalidType, InvalidValue, VerificationError

from . import strategies

KNOWN = sorted(
    entry.name.removesuffix(".toml")
    for entry in files("winogen.algebra").joinpath("known").iterdir()
)
PRODUCTS = {
    "cyclic3": 4, "gauss": 3, "karatsuba": 3, "laderman": 23, "strassen": 7,
    "strassen_winograd": 7, "toom3": 5,
}  # fmt: skip


def test_what_ships_is_right():
    assert {name: known(name).products for name in KNOWN} == PRODUCTS
    assert all(known(name).verify() for name in KNOWN)
    assert (known("strassen").written, known("strassen_winograd").written) == (18, 15)
    with pytest.raises(InvalidValue, match="name: got 'strasen'; allowed: cyclic3, gauss"):
        known("strasen")


@given(data=st.data())
@settings(max_examples=40)
def test_any_single_change_is_caught(data):
    f = known(data.draw(st.sampled_from(KNOWN)))
    name = data.draw(st.sampled_from("uvw"))
    rows = [list(row) for row in getattr(f, name)]
    row = data.draw(st.sampled_from(rows))
    row[data.draw(st.integers(0, len(row) - 1))] += data.draw(strategies.nonzero)
    wrong = replace(f, **{name: rows})
    with pytest.raises(VerificationError, match="the coefficient of .* is .*, not "):
        wrong.verify()


def test_the_failing_coefficient_is_named():
    f = known("strassen")
    signs = [list(row) for row in f.w]
    signs[3][6] = 1
    with pytest.raises(VerificationError) as caught:
        replace(f, w=signs).verify()
    assert str(caught.value) == (
        "matrix product 2x2x2: the coefficient of a e in c22 is 2, not 0 "
        "(first wrong (i, j, k) = (3, 0, 0))"
    )


@given(data=st.data())
@settings(max_examples=40)
def test_maps_are_what_their_names_say(data):
    """Each by its definition, written here once more."""
    left, right = (data.draw(strategies.vectors(4)) for _ in range(2))
    a, b = [left[:2], left[2:]], [right[:2], right[2:]]
    matrix = [sum(a[i][j] * b[j][k] for j in range(2)) for i, k in product(range(2), repeat=2)]
    assert list(matrix_product(2, 2, 2)(left, right)) == matrix
    assert list(polynomial_product(4, 4)(left, right)) == strategies.convolution(left, right)
    s = strategies.convolution(left, right)
    assert list(cyclic_convolution(4)(left, right)) == [
        sum(s[k] for k in range(7) if k % 4 == i) for i in range(4)
    ]
    number = complex(*left[:2]) * complex(*right[:2])
    assert list(complex_product()(left[:2], right[:2])) == [number.real, number.imag]
    assert list(correlation(3, 2)(left[:2], right)) == strategies.correlation(left[:2], right)
    inputs = data.draw(strategies.vectors(9))
    assert list(correlation((2, 2), (2, 2))(left, inputs)) == [
        sum(left[2 * j + t] * inputs[3 * (i + j) + k + t] for j, t in product(range(2), repeat=2))
        for i, k in product(range(2), repeat=2)
    ]


@given(data=st.data())
@settings(max_examples=20)
def test_an_algorithm_computes_its_map(data):
    f = known(data.draw(st.sampled_from(KNOWN)))
    left = data.draw(strategies.vectors(len(f.map.left)))
    right = data.draw(strategies.vectors(len(f.map.right)))
    assert f(left, right) == f.map(left, right)


def test_correlations_and_their_transposes_are_a_case():
    f = winograd(3, 3, "x,x-1,x+1,x^2+1")
    assert f.decomposition.verify() and f.transpose().decomposition.verify()
    assert f.transpose().decomposition.map.tensor == polynomial_product(3, 3).tensor
    both = nest(cook_toom(2, 3), f)
    assert both.decomposition.verify() and both.decomposition.products == both.products == 24
    assert len(both.decomposition.map.tensor) == 2 * 3 * 3 * 3


def test_nested_algorithms_that_are_wrong():
    f = cook_toom(2, 3)
    with pytest.raises(VerificationError, match=r"F\(2x2,3x3\): the coefficient of g\[0,2\]"):
        nest(f, replace(f, at=[[1, 1, 1, 0], [0, 1, -1, 2]])).decomposition.verify()


def test_maps_are_plain_values():
    one = pickle.loads(pickle.dumps(matrix_product(2, 3, 1)))
    assert one == matrix_product(2, 3, 1) and hash(one) == hash(matrix_product(2, 3, 1))
    assert one != matrix_product(2, 1, 3) and isinstance(one, BilinearMap)
    assert by_tensor([[[0, 1], [1, 0]]]).tensor == {(0, 0, 1): 1, (0, 1, 0): 1}
    assert product_modulo("x^2+1").tensor == complex_product().tensor


@pytest.mark.parametrize("text, error", [
    ("matrix product 2x2", "map: got 'matrix product 2x2'; allowed: 'matrix product 2x2x2'"),
    ("matrix product 0x2x2", "n: got 0; allowed: integers >= 1"),
    ("matrix product 999x999x999", "map: got one of 997,002,999 products; allowed: 1,000,000"),
    ("correlation 2x 3", "map: got the size '2x'; allowed: a number for each axis, as 2x2"),
    ("correlation 2x2 3", "r: got 1 axes; allowed: 2, as for m"),
    ("product modulo x^2+", "moduli: got 'x^2+'"),
    ("product modulo inf", "modulus: got 'inf'; allowed: one polynomial in x"),
])  # fmt: skip
def test_names_of_maps_that_are_refused(text, error):
    with pytest.raises(InvalidValue) as caught:
        named_map(text)
    assert str(caught.value).startswith(error)


STRASSEN = {"map": "matrix product 2x2x2", "left": "a b c d", "right": "e f g h"}
COMPLEX = {"map": "complex product"}


@pytest.mark.parametrize("data, error", [
    ({}, "file: got neither map nor tensor; allowed: one of them"),
    ({**COMPLEX, "tensor": []}, "file: got both map and tensor; allowed: one of them"),
    (COMPLEX, "file: got neither; allowed: either formulas, or u, v and w"),
    ({**COMPLEX, "u": [], "v": []}, "file: got u, v; allowed: either formulas, or u, v and w"),
    ({**COMPLEX, "formula": ""}, "file: got the key 'formula'; allowed: name, source, map"),
    ({**STRASSEN, "left": "a b c"}, "left: got 3 names; allowed: 4 for matrix product 2x2x2"),
    ({**STRASSEN, "left": "a b c a"}, "left, right, outputs: got 'a' twice; allowed: once"),
    ({"map": "y = a*c", "formulas": "y = a*c"}, "file: got a map by formulas; allowed: with"),
    ({**COMPLEX, "formulas": "real"}, "formulas: got 'real' in line 1; allowed: name = formula"),
    ({**COMPLEX, "formulas": "k = a\nk = b"}, "formulas: got 'k' again in line 2; allowed: once"),
    ({**COMPLEX, "formulas": "a = b"}, "formulas: got 'a' again in line 1; allowed: once"),
    ({**COMPLEX, "formulas": "k = a*e"}, "formulas: line 1: k = got 'a*e' ('e' is unknown)"),
    ({**COMPLEX, "formulas": "k = a*b"}, "formulas: line 1: k = got 'a*b' (a combination of the "
                                         "left operand times a combination of the left operand)"),
    ({**COMPLEX, "formulas": "k = a + c"}, "formulas: line 1: k = got 'a + c' (a combination of "
                                           "the left operand plus one of the right operand)"),
    ({**COMPLEX, "formulas": "k = a**2"}, "formulas: line 1: k = got 'a**2' ("),
    ({**COMPLEX, "formulas": "k = 2/a"}, "formulas: line 1: k = got '2/a' ("),
    ({**COMPLEX, "formulas": "real = a"}, "formulas: got 'real = a' in line 1, which is no "
                                          "combination of products; allowed: sums of named"),
    ({**COMPLEX, "formulas": "k = 2"}, "formulas: got 'k = 2' in line 1, which is no combination"),
    ({**COMPLEX, "formulas": "real = a*c"}, "formulas: got none for the output imag; allowed: all"),
    ({**COMPLEX, "u": [[1]], "v": [[1, 0]], "w": [[1], [1]]}, "u: got 1 rows of 1; allowed: 1 row"),
    ({**STRASSEN, "formulas": "m = h*(a + b)"}, "formulas: line 1: m = got 'h*(a + b)' (right "
                                                "times left, which is wrong for blocks"),
])  # fmt: skip
def test_what_a_file_may_not_say(data, error):
    with pytest.raises(InvalidValue) as caught:
        read(data)
    assert str(caught.value).startswith(error)


def test_types_that_a_file_may_not_have():
    for data, error in (
        ({"map": 3}, "map: got 3; allowed: text"),
        ({**STRASSEN, "left": 4}, "left: got 4; allowed: names, as 'a b c d'"),
        ({"tensor": 1, "formulas": "y = 1"}, "tensor: got 1; allowed: numbers by output"),
        ({**COMPLEX, "u": [[0.5]], "v": [[1]], "w": [[1]]}, "u: got the float 0.5; allowed: exact"),
        (["map"], "file: got a list; allowed: keys with values"),
    ):
        with pytest.raises(InvalidType) as caught:
            read(data)
        assert str(caught.value).startswith(error)


def test_maps_of_ones_own():
    """By a tensor with names, and by formulas; irrational numbers, too."""
    dot = {"tensor": [[[1, 0], [0, 1]]], "name": "dot", "left": "a b", "right": "c d"}
    assert read({**dot, "formulas": "y[0] = a*c + b*d"}).verify()
    with pytest.raises(VerificationError, match=r"^dot: the coefficient of b d in y\[0\] is -1"):
        read({**dot, "formulas": "y0 = a*c - b*d"}).verify()
    own = {"map": "p = 2*a*c + sqrt(2)*b*d\nq = b*c", "left": ["a", "b"], "right": ["c", "d"]}
    right = "# a remark\n\nt = b*sqrt(2)\np = 2*a*c + t*d\nq = (b*c)/1"
    assert read({**own, "formulas": right}).products == 3
    assert read({**own, "formulas": right}).verify()
    with pytest.raises(VerificationError, match="map: the coefficient of b d in p is 1, not sqrt"):
        read({**own, "formulas": "p = 2*a*c + b*d\nq = b*c"}).verify()


def test_files(tmp_path):
    file = tmp_path / "f43.json"
    file.write_text(json.dumps(cook_toom(4, 3).to_dict()))
    assert read_file(file).verify() and isinstance(read_file(file), Decomposition)
    file.write_text("map = 3")
    with pytest.raises(InvalidValue, match=r"file: got f43.json, which is not JSON \("):
        read_file(file)
    with pytest.raises(InvalidValue, match="No such file"):
        read_file(tmp_path / "none.toml")


@pytest.mark.parametrize("formulas, match", [
    (["a + b", *(f"{'9' * 20}*t{i} + t{i}" for i in range(1000))], "more than 2466 digits"),
    (["(a + b)*c", *(f"{2**60}*t{i} + t{i}" for i in range(1000))], "more than 2466 digits"),
    (["(a + b)*c", *(f"t{i} + (a + b)*(c + d)" for i in range(1000))], "10,000 coefficients"),
])  # fmt: skip
def test_formulas_that_grow_are_refused_soon(formulas, match, monkeypatch):
    monkeypatch.setattr("winogen.algebra.formulas._MOST_WORK", 10_000)
    text = "\n".join(f"t{i} = {formula}" for i, formula in enumerate(formulas))
    with pytest.raises(InvalidValue, match=match) as refused:
        read({"map": "complex product", "formulas": text})
    assert len(str(refused.value)) < 200


def test_numbers_of_many_digits_are_not_printed_whole(tmp_path):
    file, many = tmp_path / "one.json", "9" * 4000
    one = '{"map": "polynomial product 1 1", "u": [[%s]], "v": [[%s]], "w": [[1]]}'
    file.write_text(one % (many, many))
    with pytest.raises(VerificationError, match="a number of 8000 digits, not 1"):
        read_file(file).verify()


def test_matrices_whose_proof_takes_hours_are_refused(monkeypatch):
    monkeypatch.setattr("winogen.algebra.reading._MOST_WORK", 10_000)
    ones = [[1] * 9] * 9
    data = {"map": "polynomial product 9 9", "u": ones, "v": ones, "w": [[1] * 9] * 17}
    with pytest.raises(InvalidValue, match="proof takes .* products"):
        read(data)


def test_axes_of_other_strides_are_one_map():
    both = nest(strided(2, 3, 2), cook_toom(4, 3))
    assert both.decomposition.verify()
    assert both.decomposition.map == correlation((2, 4), (3, 3), (2, 1))
