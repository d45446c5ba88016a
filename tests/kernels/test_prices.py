"""What counts cost where it depends on the machine beneath them."""

from dataclasses import replace

from winogen.kernels import costs, pixels_family
from winogen.kernels.count import Demand, Move
from winogen.records import TARGETS, Machine


def test_a_machine_says_the_same_by_the_cycles_of_its_clock():
    machine, target = Machine(), TARGETS["avx512"]
    assert costs.in_clock_cycles(machine, target) == machine
    halves = replace(target, core="zen4")
    by_clock = costs.in_clock_cycles(machine, halves)
    assert by_clock.clock_ghz == 2 * machine.clock_ghz
    for name in ("vectors_per_cycle", "l2_rate", "l3_rate", "memory_rate"):
        here, there = (getattr(one, name) * one.clock_ghz for one in (machine, by_clock))
        assert here == there  # in a second
    # Vectors of 256 bits pass at once.
    assert costs.in_clock_cycles(machine, replace(TARGETS["avx2"], core="zen4")) == machine


def test_a_line_that_is_far_is_fetched_before_it_is_written():
    machine, near = Machine(), pixels_family.NEAR_BYTES
    small, large = (
        Demand(moves=(Move("input", 10_000, size), Move("strip", 10_000, size, writes=True)))
        for size in (near, near + 1)
    )
    assert pixels_family.copied(machine, small) == 2 * 10_000 / machine.l2_rate
    assert pixels_family.copied(machine, large) == 3 * 10_000 / machine.l2_rate
