"""Which drafts of a net are accurate enough."""

import pytest

from winogen.graph.ceilings import CEILINGS, Errors, accurate


@pytest.mark.parametrize(
    "errors, taken",
    (
        ((9e-6, 3e-6, 1.4e-7, 1e-7), 0),  # L2 is near the framework's
        ((1.9e-6, 3e-7, 9e-7, 1e-7), 0),  # no number is far off
        ((2.1e-6, 3e-7, 9e-7, 1e-7), 1),
        ((2.1e-6, 0.0, 9e-7, 0.0), 1),  # the framework's is exact
    ),
)
def test_errors_are_small_by_length_or_by_the_largest(errors, taken):
    drafts = [Errors(*errors), Errors(1e-7, 3e-7, 1e-8, 1e-7)]
    made = []

    def draft(ceiling):
        made.append(ceiling)
        return ceiling

    assert accurate(draft, drafts.__getitem__) == taken
    assert made == list(range(taken + 1)) and len(drafts) < len(CEILINGS)
