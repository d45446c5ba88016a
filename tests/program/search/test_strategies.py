"""The strategies: each computes its matrix exactly; what each is there to find, it finds."""

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import cook_toom
from winogen.errors import InvalidValue
from winogen.program import simplify
from winogen.program.search import plane as plane_search
from winogen.program.search.geometry import Lines, constants_of, modulo, pivot_of, point_of
from winogen.program.search.greedy import greedy
from winogen.program.search.incidence import incidence
from winogen.program.search.network import Builder
from winogen.program.search.pairs import partition, split
from winogen.program.search.plane import plane
from winogen.program.search.strategies import FAST, STRATEGIES, register_strategy, strategy

F = Fraction
CLASSIC = cook_toom(4, 3, "0, 1, -1, 2, -2, inf")
SIX = cook_toom(6, 3, "0, 1, -1, 2, -2, 1/2, -1/2, inf")

entries = st.sampled_from([F(0), F(0), F(1), F(-1), F(2), F(-1, 2), F(3)])
matrices = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.tuples(*[entries] * n), min_size=1, max_size=5)
)


def powers(points, count):
    return tuple(tuple(F(p) ** k for k in range(count)) for p in points)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@settings(max_examples=20)
@given(matrix=matrices)
def test_networks_compute_their_matrix(name, matrix):
    for network in STRATEGIES[name](tuple(matrix)):
        assert network.to_matrix() == tuple(matrix)
        assert network.compact().to_matrix() == tuple(matrix)


@settings(max_examples=40)
@given(matrix=matrices)
def test_transposition_changes_the_gates_by_outputs_minus_inputs(matrix):
    for network in greedy(matrix, tries=2):
        turned = network.transposed()
        assert turned.to_matrix() == tuple(zip(*matrix))
        read = sum(any(column) for column in zip(*matrix))
        written = sum(any(row) for row in matrix)
        assert len(turned.gates) <= len(network.gates) + written - read


def test_what_one_strategy_sees_in_the_transposed_matrix():
    fewest = {
        name: min(len(n.gates) for n in STRATEGIES[name](SIX.at))
        for name in ("greedy", "transposed")
    }
    assert fewest == {"greedy": 20, "transposed": 18}


def test_greedy_shares_up_to_scale():
    rows = [[F(4), F(-1), F(0)], [F(-2), F(1, 2), F(1)], [F(8), F(-2), F(1)]]
    assert len(greedy(rows)[0].gates) == 3
    assert len(greedy(CLASSIC.bt)[0].compact().gates) == 12


def test_compact_merges_multiples():
    network = greedy([[F(4), F(-1)], [F(-2), F(1, 2)]])[0]
    assert len(network.compact().gates) == 1


def test_cancelling_sums_cost_nothing():
    build = Builder(2)
    both = build.add((F(1), 0), (F(1), 1))
    assert build.add(both, (F(-1) * both[0], both[1])) is None
    assert build.sum([(F(1), 0), None, (F(-1), 0)]) is None
    assert build.network([None, both]).to_matrix() == ((0, 0), (1, 1))


# ---- pairs ---------------------------------------------------------------------------------------


def test_pairs_find_the_parity_of_columns():
    assert partition(CLASSIC.g) == {1}
    assert partition(CLASSIC.bt) in ({1, 3}, {2, 4})
    assert partition([[F(1), F(2)], [F(1), F(3)]]) is None
    parts, joins = split(CLASSIC.bt)
    assert sorted(sorted(columns) for columns, _ in parts) == [[0, 2, 4], [1, 3, 5]]
    assert [len(join) for join in joins] == [1, 2, 2, 2, 2, 1]


def test_reciprocal_points_are_paired_after_that():
    even = [tuple(row[::2]) for row in powers((1, 2, F(1, 2)), 5)]  # 1, q, q^2
    assert len(greedy(even)[0].gates) == 6
    assert len(plane(even)[0].gates) == 5


# ---- points and lines ----------------------------------------------------------------------------


@given(
    st.lists(st.integers(-9, 9), min_size=3, max_size=3).filter(any), st.fractions().filter(bool)
)
def test_points_are_rows_up_to_scale(row, factor):
    row = [F(c) for c in row]
    assert point_of(row) == point_of([factor * c for c in row])
    assert point_of([F(0)] * 3) is None


def test_points_on_one_line_have_one_image():
    p, q = (1, 2, 0), (0, 1, 5)
    middle = point_of([F(3 * a - 2 * b) for a, b in zip(p, q)])
    images = {modulo(point, pivot_of(middle), middle) for point in (p, q)}
    assert len(images) == 1 and modulo(middle, pivot_of(middle), middle) is None
    a, b = constants_of(middle, [p, q])
    assert point_of([F(a * c + b * d) for c, d in zip(p, q)]) == middle
    assert constants_of(p, [p, q]) is None and constants_of(p, [p, p]) is None


@pytest.mark.parametrize(
    ("points", "gates"),
    [
        ((1, -1), 3),
        ((1, -1, 2, -2), 5),  # one less than by pairing
        ((1, -1, 2, -2, F(1, 2), F(-1, 2)), 8),
        ((1, -1, F(1, 2), -2), 6),
    ],
)
def test_the_plane_search_on_filter_transforms(points, gates):
    found = plane(powers(points, 3))
    assert {len(network.gates) for network in found} == {gates}
    assert all(network.to_matrix() == powers(points, 3) for network in found)


def test_the_plane_search_ends_with_many_targets(monkeypatch):
    """What it looks at is bounded, not only how many sets of points, which grow with the rows."""
    searches = []

    class Counted(plane_search._PlaneSearch):
        def __init__(self):
            super().__init__()
            searches.append(self)

    monkeypatch.setattr(plane_search, "_PlaneSearch", Counted)
    monkeypatch.setattr(plane_search, "_LINES", 30_000)
    assert plane(powers(range(2, 16), 3)) == []
    # Of one set of points, 14 rows are held against some 120 lines, or 14 rays each cross as many.
    assert len(searches) == 4 and all(search.lines < 100_000 for search in searches)


def test_incidence_uses_cancellation():
    # Transposed Vandermonde matrix of the squares of 1, 2, 1/2, 4: even part of F(8, 3)'s output.
    rows = powers((1, 4, F(1, 4), 16), 4)
    assert len(greedy(rows)[0].gates) == 12
    assert len(incidence(rows)[0].gates) == 10


def test_incidence_substitutes_in_long_combinations():
    rows = [[F(c) for c in row] for row in ([1] * 7, [1] * 6 + [2], [1] * 6 + [-1])]
    assert len(incidence(rows, 4)[0].gates) == 8


def test_irrational_rows_are_left_to_others():
    a = cook_toom(4, 3, "0, sqrt(2)/2, -sqrt(2)/2, sqrt(2), -sqrt(2), inf")
    assert incidence(a.bt) == [] and plane(a.g) == []
    # Powers of sqrt(2) alone in columns of one parity: the parts are rational up to scale.
    assert min(len(n.gates) for n in STRATEGIES["pairs"](a.bt)) == 12


# ---- the registry --------------------------------------------------------------------------------


def test_strategies_have_names():
    assert set(FAST) <= set(STRATEGIES)
    with pytest.raises(InvalidValue, match="strategy: got 'magic'; allowed: direct, greedy"):
        strategy("magic")
    with pytest.raises(InvalidValue, match="'magic'"):
        simplify(CLASSIC.bt, strategies=("magic",))


def test_a_strategy_can_be_added():
    @register_strategy("rows")
    def rows(matrix):
        build = Builder(len(matrix[0]))
        return [
            build.network([build.chain([(c, j) for j, c in enumerate(r) if c]) for r in matrix])
        ]

    try:
        assert simplify(CLASSIC.g, strategies=("rows",)).verify(CLASSIC.g)
    finally:
        del STRATEGIES["rows"]


def test_strategies_that_find_nothing_are_an_error():
    with pytest.raises(InvalidValue, match="strategies: got .*pairs.*; allowed: one that applies"):
        simplify([[1, 2], [3, 4]], strategies=("pairs",), error_limit=None)


def test_points_that_share_a_line_are_found_by_residues():
    rng = random.Random(3)
    rows = ([rng.randint(-1, 1) for _ in range(4)] for _ in range(80))
    points = list(dict.fromkeys(point_of(tuple(map(F, row))) for row in rows if any(row)))
    lines = Lines(points)
    for node, point in enumerate(points):
        pivot = pivot_of(point)
        images = [modulo(other, pivot, point) for other in points[:node]]
        shared = [k for k, image in enumerate(images) if images.count(image) > 1]
        assert set(shared) <= set(lines.shared(node))
        # Few besides: those that a residue cannot tell are on a line of their own.
        assert len(lines.shared(node)) <= len(shared) + 2
