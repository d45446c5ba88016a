"""What counts cost where it depends on how near their buffers are."""

from winogen.kernels import pixels_family
from winogen.kernels.count import Demand, Move
from winogen.records import Machine


def test_a_line_that_is_far_is_fetched_before_it_is_written():
    machine, near = Machine(), pixels_family.NEAR_BYTES
    small, large = (
        Demand(moves=(Move("input", 10_000, size), Move("strip", 10_000, size, writes=True)))
        for size in (near, near + 1)
    )
    assert pixels_family.copied(machine, small) == 2 * 10_000 / machine.l2_rate
    assert pixels_family.copied(machine, large) == 3 * 10_000 / machine.l2_rate
