"""The search finds what is known to be good, estimates what it proposes, and ranks fairly."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.turns import first

from winogen.algebra import cook_toom, default_points, winograd
from winogen.errors import InvalidValue
from winogen.numerics import estimate, measure
from winogen.numerics.search import Candidate, Results, Search, executor, search
from winogen.numerics.search.batch import CandidateBatch, matrices
from winogen.numerics.search.candidate import root_text
from winogen.numerics.search.propose import propose
from winogen.numerics.search.run import DEFAULTS
from winogen.numerics.search.scalings import scale_for_error
from winogen.numerics.search.screen import screen
from winogen.numerics.search.spaces import FAMILIES, structures
from winogen.numerics.search.tasks import count_task, run
from winogen.reports.published import PUBLISHED


def found_by(wanted: Search, results: Results | None = None):
    with executor(Results() if results is None else results) as execute:
        return search(wanted, execute)


# ---- matrices and estimates of many at once ------------------------------------------------------


def batch_of(points, moduli=()) -> CandidateBatch:
    finite = [float(p) for p in points if p != "inf"]
    return CandidateBatch(
        np.array([finite]), np.array(moduli, float).reshape(1, -1, 2), infinity="inf" in points
    )


@pytest.mark.parametrize("m,r", [(1, 2), (2, 3), (3, 3), (4, 5), (8, 3), (16, 3)])
def test_batches_are_cook_toom(m, r):
    points = default_points(m, r).points
    found = matrices(m, r, batch_of(points))
    exact = cook_toom(m, r, points).arrays()
    for ours, theirs in zip((found.at, found.g, found.bt), exact):
        # The row of the point 0 may have the other sign.
        assert np.allclose(np.abs(ours[0]), np.abs(theirs), rtol=1e-12, atol=1e-12)
        assert np.array_equal(ours[0] == 0, theirs == 0)


def test_batches_are_winograd():
    found = matrices(7, 3, batch_of([0, 1, -1, 0.5, "inf"], [(0.5, 1), (0, 1.25)]))
    exact = winograd(7, 3, "x, x-1, x+1, x-1/2, x^2+1/2*x+1, x^2+5/4, inf").arrays()
    for ours, theirs in zip((found.at, found.g, found.bt), exact):
        assert np.allclose(np.abs(ours[0]), np.abs(theirs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"filters": "float64", "fused": True, "channels": 64, "distribution": "normal"},
        {"dtype": "float16"},
        {"dtype": "float16", "filters": "float64", "distribution": "normal"},
    ],
)
@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("m", [3, 6, 12])
def test_the_screen_is_the_estimate(m, dims, settings):
    points = default_points(m, 3).points
    rough = screen(matrices(m, 3, batch_of(points)), dims, {**DEFAULTS, **settings})[0]
    exact = estimate(cook_toom(m, 3, points), dims=dims, **settings).mean
    assert rough == pytest.approx(exact, rel=0.06)


def test_the_screen_knows_what_float16_has_no_room_for():
    far = "1/4, -1/4, 5/7, -5/7, 7/5, -7/5, 4, -4"
    batch = batch_of([Fraction(p) for p in far.split(",")])
    rough = screen(matrices(6, 3, batch), 2, {**DEFAULTS, "dtype": "float16"})[0]
    assert rough == pytest.approx(estimate(cook_toom(6, 3, far), dtype="float16").mean, rel=0.06)
    huge = screen(matrices(16, 3, batch_of(range(18))), 2, {**DEFAULTS, "dtype": "float16"})
    assert np.isinf(huge).all()


# ---- spaces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
def test_every_candidate_is_an_algorithm(family, data):
    m, r = data.draw(st.sampled_from([(2, 3), (3, 3), (4, 3), (6, 3), (3, 5)]))
    structure = data.draw(st.sampled_from(structures(m, r, ("pairs", family))))
    assert structure.degree == m + r - 1
    values = tuple(data.draw(st.sampled_from(grid)) for grid in structure.grids(4))
    ordered = structure.canonical(values)
    if ordered is None:
        return  # two points coincide
    candidate = structure.candidate(m, r, ordered)
    algorithm = candidate.algorithm
    assert algorithm.verify() and algorithm.products == candidate.multiplications
    assert Candidate.from_dict(candidate.to_dict()) == candidate
    floats = matrices(m, r, structure.batch([ordered]))
    for ours, exact in zip((floats.at, floats.g, floats.bt), algorithm.arrays()):
        assert np.allclose(np.abs(ours[0]), np.abs(exact), rtol=1e-9, atol=1e-9)


def test_canonical_values_do_not_depend_on_their_order():
    (structure,) = structures(6, 3, zero=True, infinity=True)
    a, b, c = Fraction(1, 2), Fraction(1), Fraction(2)
    assert structure.canonical((c, a, b)) == structure.canonical((b, c, a)) == (a, b, c)
    assert structure.canonical((a, a, b)) is None


def test_structures_that_cannot_be_are_refused():
    with pytest.raises(InvalidValue, match="families: got 'primes'; allowed: pairs"):
        structures(4, 3, ("primes",))
    with pytest.raises(InvalidValue, match="n = m \\+ r - 1 = 5"):
        structures(3, 3, ("pairs",), zero=True, infinity=True)


@given(st.fractions(min_value=Fraction(1, 50), max_value=50, max_denominator=50))
def test_roots_are_roots(square):
    from winogen.algebra import as_scalar

    root = as_scalar(root_text(square))
    assert root * root == square and root > 0


# ---- proposals -----------------------------------------------------------------------------------


def test_exchange_finds_what_looking_at_all_finds(monkeypatch):
    (structure,) = structures(6, 3, zero=True, infinity=True)
    arguments = (structure, 6, 3, 6, 2, DEFAULTS, 0, 5)
    everything = propose(*arguments)
    monkeypatch.setattr("winogen.numerics.search.propose._EXHAUSTIVE", 0)
    climbed = propose(*arguments)
    assert climbed[0] == everything[0]
    assert [error for error, _ in everything] == sorted(error for error, _ in everything)


# ---- the whole -----------------------------------------------------------------------------------

FIGURES = {
    (3, 3): 1.60e-7,
    (4, 3): 2.55e-7,
    (5, 3): 4.5e-7,
    (6, 3): 8.8e-7,
    (7, 3): 1.9e-6,
    (8, 3): 4.2e-6,
    (2, 5): 5.0e-7,
    (4, 5): 1.55e-6,
}


@pytest.mark.parametrize("m,r", first(3, FIGURES))
def test_finds_sets_that_are_known_to_be_possible(m, r):
    best = found_by(Search(m, r, keep=24, trials=5000))[0]
    assert best.mean < FIGURES[m, r]
    again = measure(best.candidate.algorithm, trials=5000, seed=12345)
    assert again.mean == pytest.approx(best.mean, rel=0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("m", [9, 12])
def test_beats_the_published_by_far(m):
    # Sets without 0 or without infinity help, most for odd n = m + 2.
    best = found_by(Search(m, 3, keep=8, starts=1, trials=1500, height=6))[0]
    assert best.mean < (0.6 if m % 2 else 0.8) * PUBLISHED[m].error


def test_scalings_lower_the_error_and_keep_the_algorithm():
    plain = Candidate(4, 3, points=("1/3", "-1/3", "1", "-1", "4", "-4"))
    scaled = scale_for_error(plain, 2, DEFAULTS)
    assert scaled.algorithm.verify() and scaled.algorithm.points == plain.algorithm.points
    before, after = (measure(c.algorithm, trials=6000).mean for c in (plain, scaled))
    assert after < 0.97 * before
    assert Candidate.from_dict(scaled.to_dict()) == scaled
    found = found_by(Search(4, 3, scalings=True, keep=12, trials=4000, height=6))
    assert found[0].candidate.output is not None and found[0].mean < 2.45e-7


def test_moduli_of_degree_2_trade_products_for_accuracy():
    found = found_by(Search(6, 3, ("quadratic",), True, True, keep=12, trials=1500, height=4))[0]
    assert found.candidate.moduli and found.candidate.multiplications > 8
    assert found.mean < 0.25 * 8.6e-7


def test_fronts_have_nothing_better():
    wanted = Search(
        2, 3, zero=True, infinity=True, objective="pareto", height=2, keep=3, trials=2000
    )
    results = Results()
    found = found_by(wanted, results)
    front = [f for f in found if f.on_front]
    for f in found:
        assert any(g.mean <= f.mean and g.cost <= f.cost for g in front)
    for f in front:
        assert not any(g.mean < f.mean and g.cost < f.cost for g in found)
    by_cost = found_by(replace(wanted, objective="instructions"), results)
    assert [f.cost for f in by_cost] == sorted(f.cost for f in found)
    assert by_cost[0].cost == 8 and str(by_cost[0].candidate) == "0, ±1, inf"


@pytest.mark.thorough
def test_the_symmetric_set_that_costs_no_more_than_the_classic_one():
    classic, better = (
        run(count_task(Candidate(4, 3, points=points)))
        for points in (
            ("0", "1", "-1", "2", "-2", "inf"),
            ("0", "1/2", "-1/2", "3/2", "-3/2", "inf"),
        )
    )
    for kind in ("input", "output"):
        assert better["instructions"][kind] <= classic["instructions"][kind]
    algorithm = Candidate.from_dict(better["candidate"]).algorithm
    assert algorithm.verify() and measure(algorithm, trials=10_000).mean < 2.6e-7


def test_wrong_wishes_are_named():
    for wrong in ({"objective": "beauty"}, {"height": 0}, {"keep": 0}, {"families": ("odd",)}):
        with pytest.raises(InvalidValue, match=f"{next(iter(wrong))}: got"):
            Search(4, 3, **wrong)
    for wrong in ({"order": "x"}, {"distribution": "x"}, {"channels": 0}, {"filters": "int8"}):
        with pytest.raises(InvalidValue, match=f"{next(iter(wrong))}: got"):
            Search(4, 3, settings=wrong)


# ---- little time ---------------------------------------------------------------------------------


def by_the_tick(monkeypatch):
    """Every look at the clock is a second later: so every task takes one."""
    ticks = itertools.count()
    for module in ("winogen.tasks.execute", "winogen.numerics.search.run"):
        monkeypatch.setattr(f"{module}.monotonic", lambda: next(ticks))


@pytest.mark.thorough
@pytest.mark.parametrize("objective", ["error", "pareto"])
@pytest.mark.parametrize("seconds", [1, 10, 25, 60, 400])
def test_a_search_that_runs_out_of_time_has_the_best_so_far(monkeypatch, objective, seconds):
    by_the_tick(monkeypatch)
    wanted = Search(2, 3, keep=6, trials=300, height=3, objective=objective, scalings=True)
    done = Results()
    found = found_by(replace(wanted, seconds=seconds), done)
    assert found and all(one.mean > 0 for one in found)
    stages = 6  # of each at least one task is done, whatever the time
    assert len(done) <= seconds + stages
    if seconds == 400:  # enough for everything
        assert found == found_by(wanted)


def test_the_next_search_goes_on(monkeypatch):
    by_the_tick(monkeypatch)
    wanted = Search(2, 3, keep=6, trials=300, height=3)
    done, fresh = Results(), Results()
    found_by(replace(wanted, seconds=4), done)
    before = len(done)
    assert found_by(wanted, done) == found_by(wanted, fresh)
    assert 0 < before < len(fresh)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_seconds_must_be_positive(seconds):
    with pytest.raises(InvalidValue, match="seconds: got .*; allowed: None or a positive number"):
        Search(2, 3, seconds=seconds)
