"""Equations, their four rewrite rules, and the sub-expression hierarchy."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laboratory.proofs.nested import kronecker

from winogen.program.search.equations import (
    ProductExpression,
    SumExpression,
    Variable,
    additions,
    combine,
    drop_trivial,
    expand,
    group,
    matrix_equations,
    nested_equations,
)
from winogen.program.search.hierarchy import (
    hierarchy,
    hierarchy_network,
    levels,
    negated,
    references,
    set_additions,
)

F = Fraction
x, y, z = map(Variable, "xyz")
FILTER = ((1, 0, 0), ("1/2", "1/2", "1/2"), ("1/2", "-1/2", "1/2"), (0, 0, 1))  # F(2, 3)


def signed(text):
    """ "a -b c" as a set of signed variables."""
    return frozenset((w.lstrip("-"), -1 if w.startswith("-") else 1) for w in text.split())


def tower(*sets):
    return [{frozenset(s) for s in level} for level in levels(map(signed, sets))]


# ---- the rules -----------------------------------------------------------------------------------


def test_products_by_zero_and_one_and_double_negations_go():
    before = SumExpression(
        (
            ProductExpression(F(0), x),
            ProductExpression(F(1), y),
            ProductExpression(F(-1), ProductExpression(F(-1), z)),
        )
    )
    assert drop_trivial(before) == SumExpression((y, z))
    assert drop_trivial(
        ProductExpression(F(2), SumExpression((ProductExpression(F(0), x),)))
    ) == SumExpression(())


def test_products_are_distributed_over_sums():
    before = SumExpression(
        (ProductExpression(F(2), SumExpression((x, ProductExpression(F(-3), y)))), z)
    )
    assert expand(before) == ((2, "x"), (-6, "y"), (1, "z"))


def test_terms_of_one_variable_are_combined():
    assert combine(((F(2), "x"), (F(1), "y"), (F(-1), "x"))) == ((1, "x"), (1, "y"))
    assert combine(((F(2), "x"), (F(-2), "x"))) == ()


def test_terms_of_one_absolute_constant_are_grouped():
    groups = group(((F(-1, 2), "x"), (F(3), "y"), (F(1, 2), "z")))
    assert groups == ((F(1, 2), signed("-x z")), (3, signed("y")))


def test_nested_equations_are_those_of_the_kronecker_product():
    right = tuple(zip(*FILTER))
    assert nested_equations(FILTER, right, "x") == [
        tuple(
            (
                g.constant,
                frozenset((f"x{int(n[1:]) // 3}{int(n[1:]) % 3}", s) for n, s in g.variables),
            )
            for g in equation
        )
        for equation in matrix_equations(kronecker(FILTER, FILTER), "x")
    ]


# ---- the hierarchy -------------------------------------------------------------------------------


def test_level_one_holds_what_two_sets_share():
    assert tower("a b c", "a b d") == [{signed("a b c"), signed("a b d")}, {signed("a b")}]


def test_a_set_may_be_negated_first():
    assert tower("a b c", "-a -b d") == [{signed("a b c"), signed("a b -d")}, {signed("a b")}]


def test_levels_go_on_until_nothing_is_shared():
    built = tower("a b c d e", "a b c d f", "a b c g", "h i")
    assert built[1] == {signed("a b c d"), signed("a b c")}
    assert built[2] == {signed("a b c")}
    assert len(built) == 3


def test_the_largest_set_is_referred_to_first():
    rest, used = references(signed("a b -c -d e"), [signed("a b e"), signed("a b"), signed("c d")])
    assert rest == frozenset()
    assert used == [(signed("a b e"), 1), (signed("c d"), -1)]


def test_the_worked_example_of_the_source():
    """The filter transform of F(2x2, 3x3): 48 additions flat, 27 with its hierarchy, or fewer."""
    equations = nested_equations(FILTER, tuple(zip(*FILTER)), "x")
    assert additions(equations) == 48
    names = [f"x{i}{j}" for i in range(3) for j in range(3)]
    network = hierarchy_network(equations, names)
    assert network.to_matrix() == kronecker(FILTER, FILTER)
    assert len(network.gates) == 23 == set_additions(equations)
    # The tie rule of Keane's thesis: one reference to each level. Equal beginnings are one gate.
    assert set_additions(equations, single=True) == 27
    network = hierarchy_network(equations, names, single=True)
    assert network.to_matrix() == kronecker(FILTER, FILTER)
    assert len(network.gates) == 25


entries = st.sampled_from([F(0), F(1), F(-1), F(2), F(-2), F(1, 2)])


@given(
    st.integers(1, 5).flatmap(lambda n: st.lists(st.tuples(*[entries] * n), min_size=1, max_size=6))
)
def test_the_strategy_keeps_the_matrix_and_never_adds_additions(rows):
    (network,) = hierarchy(rows)
    assert network.to_matrix() == tuple(rows)
    assert len(network.gates) <= additions(matrix_equations(rows))


@given(st.lists(st.sets(st.sampled_from("abcdef"), min_size=2), min_size=1, max_size=5))
def test_every_level_is_smaller_than_the_one_before(sets):
    built = levels(signed(" ".join(s)) for s in sets)
    assert all(len(after[0]) < len(before[0]) for before, after in pairwise(built))
    assert negated(negated(signed("a -b"))) == signed("a -b")


@pytest.mark.parametrize("count", [11])
def test_many_rows_get_separated_indices(count):
    equations = nested_equations([[1] * count], [[1]] * 1, "x")
    assert ("x10_0", 1) in equations[0][0].variables
