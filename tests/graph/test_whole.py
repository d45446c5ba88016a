"""How far outputs may be off, and how that is measured."""

import numpy as np

from winogen.graph.whole import distance, limit


def test_distances():
    nan, inf = np.nan, np.inf
    one = np.array([1.0, nan, inf, -4.0])
    assert distance(one.copy(), one) == 0
    assert distance(np.array([1.0, nan, inf, -5.0]), one) == 0.25
    assert distance(np.array([1.0, nan, -inf, -4.0]), one) == inf
    assert distance(np.array([1.0, nan, inf, nan]), one) == inf
    assert distance(np.array([1.0, 0.0, inf, -4.0]), one) == inf
    assert distance(one[:3], one) == inf
    assert distance(np.array([1e-9]), np.zeros(1)) == inf
    assert distance(np.zeros((0, 3)), np.zeros((0, 3))) == 0


def test_the_larger_of_what_moves_an_output_bounds_it():
    assert limit(1e-5, 1e-7) == 1e-4 and limit(0.0, 1e-7) == 1e-6
