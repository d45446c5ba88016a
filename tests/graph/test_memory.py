"""Arrays that live at the same time never overlap, and memory is reused where they don't."""

from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.graph.memory import Life, least, offsets
from winogen.records.machine import LINE

lives = st.builds(
    lambda size, first, steps: Life(size, first, first + steps),
    st.integers(0, 1000),
    st.integers(0, 12),
    st.integers(0, 5),
)


@settings(max_examples=300)
@given(st.lists(lives, max_size=14))
def test_no_two_live_arrays_overlap(arrays):
    begins, total = offsets(arrays)
    for i, (begin, life) in enumerate(zip(begins, arrays)):
        assert begin % LINE == 0 and begin + life.size <= total
        for other_begin, other in list(zip(begins, arrays))[:i]:
            together = life.first <= other.last and other.first <= life.last
            apart = begin + life.size <= other_begin or other_begin + other.size <= begin
            assert apart or not together
    busiest = max(
        (sum(a.size for a in arrays if a.first <= t <= a.last) for t in range(18)), default=0
    )
    assert busiest == least(arrays)
    assert busiest <= total <= sum(-(-a.size // LINE) * LINE for a in arrays)


def test_a_chain_needs_two_arrays():
    _, total = offsets([Life(640, i, i + 1) for i in range(10)])
    assert total == 2 * 640


def test_a_small_array_takes_the_tightest_gap():
    arrays = [Life(640, 0, 9), Life(320, 0, 1), Life(128, 2, 9), Life(128, 3, 9)]
    begins, total = offsets(arrays)
    assert total == 960 and begins[0] == 0 and begins[1] == 640


class Counted(Life):
    """Counts how often anybody asks how large such arrays are."""

    asked = 0

    @property
    def size(self):
        Counted.asked += 1
        return self[0]


def test_arrays_of_other_times_take_no_time():
    """A chain twice as long takes twice the work, though no array is larger than others."""
    counts = []
    for steps in (1000, 2000):
        Counted.asked = 0
        offsets([Counted(640, i, i + 1) for i in range(steps)])
        counts.append(Counted.asked)
    assert 0 < counts[1] < 2.1 * counts[0]
