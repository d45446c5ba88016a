"""Machines by the cycles of their clock, where vectors pass in halves and where they do not."""

from dataclasses import replace

import pytest

from winogen.conv import clocks
from winogen.records import TARGETS, Machine
from winogen.records.machines import known_machine

WHOLE = TARGETS["avx512"], replace(TARGETS["avx2"], core="zen4")
HALVES = replace(TARGETS["avx512"], core="zen4")
RATES = ("vectors_per_cycle", "l2_rate", "l3_rate", "memory_rate")


@pytest.mark.parametrize("target", WHOLE, ids=lambda target: target.name)
def test_nothing_changes_where_vectors_pass_whole(target):
    assert clocks.in_clock_cycles(Machine(), target) == Machine() == clocks.unmeasured(target)
    alone = clocks.unmeasured(target, waits=False)
    assert alone == Machine().without_barriers and alone != Machine()


def test_a_machine_says_the_same_by_the_cycles_of_its_clock():
    machine = Machine()
    by_clock = clocks.in_clock_cycles(machine, HALVES)
    assert by_clock.clock_ghz == 2 * machine.clock_ghz
    for name in RATES:  # in a second
        here, there = (getattr(one, name) * one.clock_ghz for one in (machine, by_clock))
        assert here == there


def test_a_record_that_counts_one_vector_counts_cycles_of_the_clock():
    machine = known_machine("zen4", 64)
    assert machine.vectors_per_cycle == 1 and clocks.in_clock_cycles(machine, HALVES) == machine


def test_the_machine_that_files_are_planned_for_moves_bytes_alike_and_halves_vectors():
    usual, halves = Machine(), clocks.in_clock_cycles(clocks.unmeasured(HALVES), HALVES)
    wanted = replace(usual, vectors_per_cycle=usual.vectors_per_cycle / 2)
    assert halves == wanted
