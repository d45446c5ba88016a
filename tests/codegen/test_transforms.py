"""`load`: catalog entries without sympy, custom point sets, one object per request."""

import os
import subprocess
import sys
from fractions import Fraction

import pytest

from winogen.algebra import BilinearAlgorithm, cook_toom, default_points, winograd
from winogen.codegen.transforms import catalog, from_algorithm, load
from winogen.errors import InvalidType, InvalidValue, VerificationError

NAMES = sorted(catalog())


def entry(name):
    return load(catalog()[name]["m"], catalog()[name]["r"], name=name)


@pytest.mark.parametrize("name", NAMES)
def test_every_catalog_entry_is_a_true_algorithm(name):
    t = entry(name)
    algorithm = BilinearAlgorithm(m=t.m, r=t.r, at=t.at, g=t.g, bt=t.bt)
    assert algorithm.verify()
    assert (t.name, t.n, t.products) == (name, t.m + t.r - 1, len(t.bt))
    assert f"void winogen_{name}_output_2d(" in t.header
    assert t.source and t.source in " ".join(t.header.replace("\n *", " ").split())


def test_catalog_holds_the_promised_algorithms():
    wanted = {3: range(2, 9), 5: range(2, 7), 7: range(2, 5), 2: range(2, 7), 4: range(2, 5)}
    for r, outputs in wanted.items():
        for m in outputs:
            points = tuple(map(str, default_points(m, r)))
            assert (load(m, r).name, load(m, r).points) == (f"f{m}_{r}", points)
    assert (load(1, 1).products, load(1, 1).bt) == (1, ((Fraction(1),),))
    assert entry("f4_3_gaussian").products == 7


def test_catalog_entries_load_without_sympy_and_jinja():
    program = (
        "import sys\n"
        "from winogen.codegen.transforms import catalog, load\n"
        "for name, e in catalog().items(): load(e['m'], e['r'], name=name).instructions\n"
        "assert load(4, 3).g[0][0] and load(6, 3).at and len(catalog()) > 20\n"
        "print([m for m in ('sympy', 'jinja2', 'numpy') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert (found.stdout.strip(), found.stderr) == ("[]", "")


def test_one_object_per_request():
    assert load(4, 3) is load(4, 3)
    assert load(2, 3, "0,2,-2,inf") is load(2, 3, "0,2,-2,inf")
    assert load(4, 3, points=["0", 1, -1, 2, -2, "inf"]) is load(4, 3, name="f4_3_classic")


def test_the_order_of_points_does_not_matter_to_the_catalog():
    assert load(4, 3, "inf, 2, -2, 1, -1, 0").name == "f4_3_classic"
    assert load(4, 3, default_points(4, 3)).name == "f4_3"
    assert load(4, 3, moduli="inf,x^2+1,x,x-1,x+1").name == "f4_3_gaussian"


def test_custom_points_are_derived_under_a_name_of_their_own():
    t, other = load(4, 3, "0,1/3,-1/3,2,-2,inf"), load(4, 3, "0,1/3,-1/3,3,-3,inf")
    assert t.name != other.name and t.name.startswith("f4_3_")
    assert t.points == ("0", "1/3", "-1/3", "2", "-2", "inf")
    assert "winogen derive 4 3 --format c --points '0,1/3," in t.header.splitlines()[0]
    assert BilinearAlgorithm(m=4, r=3, at=t.at, g=t.g, bt=t.bt).verify()


def test_custom_moduli_and_default_points_beyond_the_catalog():
    t = load(2, 3, moduli="x,x-1,x^2+1")
    assert (t.products, t.points, t.moduli[2]) == (5, (), "x^2 + 1")
    far = load(6, 4)
    assert far.name == "f6_4" and far.points == tuple(map(str, default_points(6, 4)))
    assert load(3, 1).products == 3


def test_wrong_requests_name_argument_value_and_what_is_allowed():
    for arguments, error, words in (
        (dict(m=0, r=3), InvalidValue, ("m: got 0", "allowed")),
        (dict(m=4, r="x"), InvalidType, ("r: got 'x'", "allowed")),
        (dict(m=4, r=3, points="0,1,inf"), InvalidValue, ("points: got 3", "6")),
        (dict(m=2, r=3, points="0,1,1,inf"), InvalidValue, ("1 twice",)),
        (dict(m=2, r=3, points=7), InvalidType, ("points: got 7",)),
        (dict(m=4, r=3, name="f6_3"), InvalidValue, ("'f6_3'", "f4_3_classic")),
        (dict(m=2, r=3, points="0,1,-1,inf", moduli="x"), InvalidValue, ("moduli",)),
    ):
        with pytest.raises(error) as caught:
            load(**arguments)
        assert all(word in str(caught.value) for word in words), caught.value


def test_a_wrong_algorithm_is_never_emitted():
    right = cook_toom(2, 3)
    rows = [list(row) for row in right.bt]
    rows[3][3] = -rows[3][3]  # the misprint [0 1 0 1] in the last row of B^T
    wrong = BilinearAlgorithm(m=2, r=3, at=right.at, g=right.g, bt=rows, points=right.points)
    with pytest.raises(VerificationError):
        from_algorithm(wrong)


def test_scaled_algorithms_differ_in_name():
    plain = winograd(2, 3, "x,x-1,x+1,inf")
    scaled = plain.scale(input=[1, 2, 2, 1])
    assert from_algorithm(plain).name != from_algorithm(scaled).name
