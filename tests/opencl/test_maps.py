"""Layout operations move no number, but say where it is: shown by numpy, number by number."""

import itertools
from random import Random

import numpy as np
import pytest

from winogen.codegen.devices.expressions import Load, Name, Select, expr
from winogen.opencl.indices import Bounds, divides, function_of, quotient, remainder
from winogen.opencl.maps import IndexView, Zip


def known(view):
    """All numbers of a view of an array that counts, zeros outside of it; by known indices."""
    numbers = np.zeros(view.sizes, int)
    for index in np.ndindex(*view.sizes):
        place = view.at(*index)
        if function_of(place.inside)({}):
            numbers[index] = 1 + function_of(place.index)({})
    return numbers


def named(view):
    """The same by one map of names, as it stands in a kernel."""
    names = [Name(f"i{axis}") for axis in range(len(view.sizes))]
    place = view.at(*names, bounds=Bounds(dict(zip(names, view.sizes))))
    inside, at = function_of(place.inside), function_of(place.index)
    numbers = np.zeros(view.sizes, int)
    for index in np.ndindex(*view.sizes):
        values = {one.name: value for one, value in zip(names, index)}
        if inside(values):
            numbers[index] = 1 + at(values)
    return numbers


def counting(*shape):
    return IndexView.of("x", *shape), np.arange(1, 1 + np.prod(shape)).reshape(shape)


def windows(array, axis, size, step):
    """numpy's windows along an axis, of which the numbers of one come right behind."""
    slid = np.lib.stride_tricks.sliding_window_view(array, size, axis)
    slid = np.moveaxis(slid, -1, axis + 1)
    return slid[(slice(None),) * axis + (slice(None, None, step),)]


OPERATIONS = {
    "pad": (
        lambda v: v.pad(0, 1, 2).pad(1, 0, 3),
        lambda a: np.pad(a, ((1, 2), (0, 3), (0, 0))),
    ),
    "reverse": (
        lambda v: v.pad(1, 0, 2).reverse(1).reverse(2),
        lambda a: np.pad(a, ((0, 0), (0, 2), (0, 0)))[:, ::-1, ::-1],
    ),
    "reflect": (
        lambda v: v.pad(0, 3, 2, "reflect"),
        lambda a: np.pad(a, ((3, 2), (0, 0), (0, 0)), "reflect"),
    ),
    "replicate": (
        lambda v: v.pad(1, 5, 4, "replicate"),
        lambda a: np.pad(a, ((0, 0), (5, 4), (0, 0)), "edge"),
    ),
    "circular": (
        lambda v: v.pad(1, 2, 3, "circular"),
        lambda a: np.pad(a, ((0, 0), (2, 3), (0, 0)), "wrap"),
    ),
    "an end left out": (
        lambda v: v.pad(0, 2, -1),
        lambda a: np.pad(a, ((2, 0), (0, 0), (0, 0)))[:-1],
    ),
    "zeros behind a reflection": (
        lambda v: v.pad(0, 1, 1, "reflect").pad(0, 0, 3),
        lambda a: np.pad(np.pad(a, ((1, 1), (0, 0), (0, 0)), "reflect"), ((0, 3), (0, 0), (0, 0))),
    ),
    "slide, with a rest": (lambda v: v.slide(0, 3, 2), lambda a: windows(a, 0, 3, 2)),
    "slide_strict": (lambda v: v.slide_strict(2, 4, 4), lambda a: windows(a, 2, 4, 4)),
    "every": (lambda v: v.every(0, 3), lambda a: a[::3]),
    "first": (lambda v: v.first(1, 2), lambda a: a[:, :2]),
    "split": (lambda v: v.split(2, 2), lambda a: a.reshape(6, 4, 4, 2)),
    "join": (lambda v: v.join(1), lambda a: a.reshape(6, 32)),
    "transpose": (lambda v: v.transpose(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "reorder": (
        lambda v: v.reorder(2, 4).split(2, 2),
        lambda a: a.reshape(6, 4, 2, 4).transpose(0, 1, 3, 2),
    ),
    "vectors": (lambda v: v.vectors(4), lambda a: a[:, :, ::4]),
    "tiles of dilated windows": (
        lambda v: v.pad(0, 1, 2).slide_strict(0, 5, 2).slide_strict(1, 3, 1).every(2, 2),
        lambda a: windows(
            windows(np.pad(a, ((1, 2), (0, 0), (0, 0))), 0, 5, 2), 1, 3, 1
        )[:, :, ::2],
    ),
    "joined and split otherwise": (
        lambda v: v.join(0).join(0).split(0, 12).split(1, 6).transpose(1, 2, 0).join(0),
        lambda a: a.reshape(16, 2, 6).transpose(1, 2, 0).reshape(12, 16),
    ),
    "joined pieces dealt round-robin": (
        lambda v: v.transpose(0, 2, 1).join(1).reorder(1, 8).split(1, 4),
        lambda a: a.transpose(0, 2, 1).reshape(6, 4, 8).transpose(0, 2, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_views_are_what_numpy_makes(name):
    apply, expected = OPERATIONS[name]
    view, array = counting(6, 4, 8)
    view, array = apply(view), expected(array)
    np.testing.assert_array_equal(known(view), array)
    np.testing.assert_array_equal(named(view), array)


BIJECTIONS = ("split", "join", "transpose", "reorder", "joined and split otherwise",
              "joined pieces dealt round-robin")  # fmt: skip
COVERINGS = ("pad", "reflect", "replicate", "circular", "slide_strict", "tiles of dilated windows")


@pytest.mark.parametrize("name", BIJECTIONS)
def test_bijections_have_every_number_once(name):
    view, array = counting(6, 4, 8)
    assert sorted(known(OPERATIONS[name][0](view)).flat) == sorted(array.flat)


@pytest.mark.parametrize("name", COVERINGS)
def test_coverings_have_every_number(name):
    view, array = counting(6, 4, 8)
    assert {*known(OPERATIONS[name][0](view)).flat} >= {*array.flat}


def test_operations_say_what_they_ask_of_lengths():
    n, k = Name("n"), Name("k")
    (split,) = IndexView.of("x", n).split(0, k).conditions
    holds = function_of(split.holds)
    assert [size for size in range(1, 13) if holds({"n": 12, "k": size})] == [1, 2, 3, 4, 6, 12]
    assert (split.leads, split.follows) == (frozenset("n"), frozenset("k"))
    *_, rest = IndexView.of("x", n).slide_strict(0, k, 2).conditions
    assert function_of(rest.holds)({"n": 9, "k": 3}) and not function_of(rest.holds)(
        {"n": 9, "k": 4}
    )
    loose = IndexView.of("x", n).slide(0, k, 2).conditions
    assert all(function_of(one.holds)({"n": 9, "k": 4}) for one in loose)
    assert not all(function_of(one.holds)({"n": 3, "k": 4}) for one in loose)
    (same,) = Zip((IndexView.of("x", 3, n), IndexView.of("y", k)), shared=1).conditions
    assert function_of(same.holds)({"n": 5, "k": 5}) and not function_of(same.holds)(
        {"n": 5, "k": 4}
    )
    (fits,) = IndexView.of("x", n).first(0, k).conditions
    assert function_of(fits.holds)({"n": 5, "k": 5}) and not function_of(fits.holds)(
        {"n": 4, "k": 5}
    )


@pytest.mark.parametrize(
    "view, near",
    [
        (IndexView.of("x", 4, 8), True),
        (IndexView.of("x", 4, 8).transpose(1, 0), False),
        (IndexView.of("x", 4, 8).pad(0, 1, 1), True),
        (IndexView.of("x", 4, 8).pad(1, 0, 2), False),
        (IndexView.of("x", 4, 8).slide(1, 4, 2).every(2, 2), False),
        (IndexView.of("x", 4, 8).split(1, 4), True),
        (IndexView.of("x", 4, 8).transpose(1, 0).written("y", 1), True),
        (IndexView.of("x", 4, 8).transpose(1, 0).written("y", 0), False),
    ],
)
def test_vectors_want_neighbours_in_memory(view, near):
    asked = view.vectors(2).conditions
    assert all(one.decided for one in asked if one.why == "vectors lie in one piece") is near
    assert all(one.decided for one in view.vectors(1).conditions)


def test_what_is_written_to_an_array_of_its_own_is_near_by_a_parameter():
    pad, lanes = Name("pad"), Name("lanes")
    view = IndexView.of("x", 4, 8).transpose(1, 0).written("y", pad).vectors(lanes)
    (near,) = (one for one in view.conditions if one.why == "vectors lie in one piece")
    holds = function_of(near.holds)
    pairs = itertools.product((0, 1), (1, 2))
    assert [holds({"pad": p, "lanes": v}) for p, v in pairs] == [1, 0, 1, 1]


def test_nothing_outside_of_an_array_is_read():
    place = IndexView.of("x", 4).pad(0, 1, 1).at(Name("i"))
    load = place.load
    assert isinstance(load, Select) and isinstance(load.yes, Load)
    at = function_of(load.yes.index)
    assert [at({"i": i}) for i in range(6)] == [0, 0, 1, 2, 3, 0]


def test_ids_that_are_known_are_not_divided():
    """... so that addresses of a kernel have neither quotients nor conditions without need."""
    i, j, k = map(Name, "ijk")
    bounds = Bounds({i: 3, j: 4, k: 5})
    view = IndexView.of("x", 3, 4, 5).join(1).join(0).split(0, 20).split(1, 5)
    assert view.at(i, j, k, bounds=bounds).index == i * 20 + j * 5 + k
    padded = IndexView.of("x", 8).pad(0, 1, 1)
    assert padded.at(j + 1, bounds=bounds).inside == expr(1)
    assert padded.at(j, bounds=bounds).inside == (j >= 1)


def test_quotients_and_rests_are_those_of_integers():
    random = Random(5)
    names = [Name("a"), Name("b"), Name("c")]
    simpler = 0
    for _ in range(400):
        ends = [random.randint(1, 6) for _ in names]
        bounds = Bounds(dict(zip(names, ends)))
        factors = [random.choice((1, 2, 3, 4, 6, 12, 24)) for _ in names]
        value = expr(random.randint(0, 9))
        for name, factor in zip(names, factors):
            value = value + name * factor
        value = value if random.random() < 0.7 else value % 7 * 3 + names[0]
        divisor = random.choice((1, 2, 3, 4, 5, 6, 8, 12, 24))
        whole, rest = quotient(value, divisor, bounds), remainder(value, divisor, bounds)
        simpler += "%" not in repr(rest)
        exact, q, r = map(function_of, (value, whole, rest))
        for index in itertools.product(*map(range, ends)):
            values = dict(zip("abc", index))
            assert (q(values), r(values)) == divmod(exact(values), divisor)
            assert not divides(divisor, value) or r(values) == 0
            assert bounds.most(value) is None or exact(values) <= bounds.most(value)
    assert simpler > 90
