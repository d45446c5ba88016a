"""Proofs of minimality, and the cuts that they rest on."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory.proofs import exact
from laboratory.proofs.exact import proven_minimal

from winogen.algebra import cook_toom
from winogen.errors import Unsupported
from winogen.program.search.strategies import best_networks


@pytest.mark.parametrize(("name", "gates"), [("bt", 4), ("g", 3), ("at", 4)])
def test_f23_is_minimal(name, gates):
    matrix = getattr(cook_toom(2, 3), name)
    assert proven_minimal(matrix, gates)
    assert not proven_minimal(matrix, gates + 1)


def test_the_filter_of_f43_is_minimal_with_any_constants():
    classic = cook_toom(4, 3, "0,1,-1,2,-2,inf")
    assert proven_minimal(classic.g, 5) and not proven_minimal(classic.g, 6)


def test_algebra_refutes_what_cuts_cannot():
    # Points in general position: a shape with one drawn point exists, constants for it do not.
    assert proven_minimal(cook_toom(4, 3, "0,5/8,-5/8,3/2,-3/2,inf").g, 6)


def test_trivial_matrices_need_no_gates():
    assert proven_minimal([[1, 0], [0, -3], [0, 0]], 0)
    assert not proven_minimal([[1, 0], [0, -3]], 1)
    assert proven_minimal([[1, 1], [2, 2]], 1)


def test_no_proof_within_the_limit_is_no_proof():
    classic = cook_toom(4, 3, "0,1,-1,2,-2,inf")
    assert not proven_minimal(classic.at, 10, limit=3)


def test_irrational_matrices_are_refused():
    with pytest.raises(Unsupported, match="irrational"):
        proven_minimal(cook_toom(2, 3, "0, sqrt(2), -sqrt(2), inf").g, 3)


@st.composite
def shapes(draw):
    width = draw(st.integers(2, 4))
    operands = {}
    for g in range(width, width + draw(st.integers(1, 5))):
        operands[g] = draw(st.lists(st.integers(0, g - 1), min_size=2, max_size=2, unique=True))
    nodes = range(width + len(operands))
    sources = draw(st.lists(st.sampled_from(range(width)), min_size=1, unique=True))
    sinks = draw(st.lists(st.sampled_from(nodes[width:]), min_size=1, max_size=3, unique=True))
    return operands, sources, set(sinks)


def parts(operands, sources, sinks, cut):
    """Whether no path leads from sources to sinks without the nodes of the cut."""
    reached, pending = set(), [s for s in sources if s not in cut]
    while pending:
        node = pending.pop()
        if node in reached:
            continue
        reached.add(node)
        pending += [g for g, pair in operands.items() if node in pair and g not in cut]
    return not reached & set(sinks)


@settings(max_examples=150)
@given(shapes())
def test_cuts_agree_with_trying_all_sets_of_nodes(shape):
    operands, sources, sinks = shape
    nodes = sorted({*operands, *sources, *(x for pair in operands.values() for x in pair)})
    fewest = next(
        size
        for size in range(len(nodes) + 1)
        if any(parts(operands, sources, sinks, cut) for cut in combinations(nodes, size))
    )
    assert exact._smallest_cut(operands, sources, sinks, fewest) is None
    before, cut = exact._smallest_cut(operands, sources, sinks, fewest + 1)
    assert len(cut) == fewest and parts(operands, sources, sinks, cut)
    assert not before & cut


@settings(max_examples=25)
@given(
    st.integers(1, 3).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([0, 0, 1, -1, 2]), min_size=n, max_size=n),
            min_size=1,
            max_size=3,
        )
    )
)
def test_proofs_never_contradict_what_is_found(matrix):
    gates = min(len(n.gates) for n in best_networks(as_fractions(matrix), ("greedy", "incidence")))
    assert not proven_minimal(matrix, gates + 1)


def as_fractions(matrix):
    return tuple(tuple(Fraction(c) for c in row) for row in matrix)
