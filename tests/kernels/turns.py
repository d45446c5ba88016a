"""Cases of which few run every time, and the others in the thorough run."""

from itertools import combinations, product

import pytest


def turns(*axes):
    """Combinations of one value of each axis, for `pytest.mark.parametrize`.

    Those that `make test` runs are as many as the longest axis has values, and show every value of
    every axis at least once; the others are marked as thorough. Compiling takes most of the time of
    most tests, and mostly what one value breaks, it breaks beside any others; seldom two values are
    needed, and hardly ever three. So all together show every two values of two axes.

    >>> [mark.values for mark in turns("ab", (1, 2, 3)) if not mark.marks]
    [('a', 1), ('a', 3), ('b', 2)]
    >>> len(turns("ab", (1, 2, 3))), len(turns("ab", (1, 2, 3), "cd"))
    (6, 7)
    """
    axes = [list(axis) for axis in axes]
    shown = {
        tuple(turn % len(axis) for axis in axes) for turn in range(max(map(len, axes), default=0))
    }
    every = list(product(*(range(len(axis)) for axis in axes)))
    kept = set(shown if len(axes) > 2 else every)
    seen = set().union(*map(_pairs, kept))
    while missing := set().union(*map(_pairs, every)) - seen:
        # The first of those that show most.
        more = max(every, key=lambda indices: len(_pairs(indices) & missing))
        kept.add(more)
        seen |= _pairs(more)
    return [
        pytest.param(
            *(axis[index] for axis, index in zip(axes, indices)),
            marks=() if indices in shown else pytest.mark.thorough,
        )
        for indices in every
        if indices in kept
    ]


def _pairs(indices):
    """Every two places of two axes."""
    return set(combinations(enumerate(indices), 2))


def first(count, cases):
    """The cases, of which `make test` runs the first ``count``."""
    return [
        pytest.param(*case, marks=() if index < count else pytest.mark.thorough)
        for index, case in enumerate(cases)
    ]
