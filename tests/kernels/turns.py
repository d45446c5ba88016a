"""Cases of which few run every time, and the others in the thorough run."""

from itertools import product

import pytest


def turns(*axes):
    """All combinations of one value of each axis, for `pytest.mark.parametrize`.

    Those that `make test` runs are as many as the longest axis has values, and show every value of
    every axis at least once; the others are marked as thorough. Compiling takes most of the time of
    most tests, and mostly what one value breaks, it breaks beside any others.

    >>> [mark.values for mark in turns("ab", (1, 2, 3)) if not mark.marks]
    [('a', 1), ('a', 3), ('b', 2)]
    """
    axes = [list(axis) for axis in axes]
    shown = {
        tuple(turn % len(axis) for axis in axes) for turn in range(max(map(len, axes), default=0))
    }
    return [
        pytest.param(
            *(axis[index] for axis, index in zip(axes, indices)),
            marks=() if indices in shown else pytest.mark.thorough,
        )
        for indices in product(*(range(len(axis)) for axis in axes))
    ]


def first(count, cases):
    """The cases, of which `make test` runs the first ``count``."""
    return [
        pytest.param(*case, marks=() if index < count else pytest.mark.thorough)
        for index, case in enumerate(cases)
    ]
