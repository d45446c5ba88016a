"""Rates that cannot be true are told from those that can, and what comes in their place."""

from dataclasses import replace

import pytest

from winogen.records import TARGETS, Machine
from winogen.toolchain import calibrate
from winogen.toolchain.calibrate import MeasuredMachine, fastest, machine_of, plausible, ratios
from winogen.toolchain.limits import Limits

QUIET = Machine(l2_rate=64.0, l3_rate=26.9, memory_rate=11.3)  # of a Zen 5
STEP = 2**0.25  # to which rates are rounded


@pytest.mark.parametrize(
    "machine",
    [
        Machine(),
        QUIET,
        Machine(l2_rate=13.45, l3_rate=11.3, memory_rate=1.19),  # slow, and yet
        Machine(l2_rate=107.6, l3_rate=6.73, memory_rate=8.0),  # far from square
        Machine(l2_rate=32.0, l3_rate=2.0, memory_rate=2.0),  # without a third level
    ],
)
def test_machines_that_exist_are_believed(machine):
    assert plausible(machine, machine.clock_ghz) == (machine, ())


@pytest.mark.parametrize(
    "wrong, right",
    [
        ({"memory_rate": 0.5}, {"memory_rate": 8.0}),
        ({"l3_rate": 2.0}, {"l3_rate": 26.9}),
        ({"l3_rate": 2.0, "memory_rate": 0.5}, {"l3_rate": 19.03, "memory_rate": 6.73}),
        ({"l2_rate": 8.0}, {"l2_rate": 90.51}),
        ({"l2_rate": 16.0}, {"l2_rate": 90.51}),  # slower than the next level
        ({"l2_rate": 1.0, "l3_rate": 1.0, "memory_rate": 0.1}, {}),
    ],
)
def test_a_rate_that_cannot_be_true_becomes_the_default_s_in_proportion(wrong, right):
    if not right:
        right = {name: getattr(Machine(), name) for name in wrong}
    found, signs = plausible(replace(QUIET, **wrong))
    for name in ("l2_rate", "l3_rate", "memory_rate"):
        expected = right.get(name, getattr(QUIET, name))
        assert getattr(found, name) == pytest.approx(expected, rel=STEP - 1)
    assert sorted(sign.split()[0] for sign in signs) == sorted(wrong)


def test_a_peak_of_hardly_any_multiply_adds_a_cycle_gives_way_to_the_clock():
    """As where another thread of the core has its units; the other rates are by the true cycle."""
    slow = replace(QUIET, clock_ghz=0.6, l2_rate=320.0, l3_rate=134.5, memory_rate=56.5)
    found, signs = plausible(slow, 3.0)
    assert found.clock_ghz == 3.0 and signs == ("clock_ghz 0.6 cannot be true",)
    for name in ("l2_rate", "l3_rate", "memory_rate"):
        assert getattr(found, name) == pytest.approx(getattr(QUIET, name), rel=STEP - 1)
    assert plausible(replace(slow, clock_ghz=0.75), 3.0)[1] == ()  # half a unit a cycle exists


def limits(memory, signs=()):
    read = (("L2", 1 << 19, 192.0), ("L3", 16 << 20, 81.0), ("memory", 64 << 20, memory))
    return Limits(1, {1: 192.0}, read, clock_ghz=3.0, signs=signs)


def test_what_looks_wrong_is_believed_where_somebody_asks_and_nothing_disturbs(monkeypatch):
    """There may be a machine like that, and `winogen calibrate` is the way to say so."""
    target = TARGETS["avx512"]
    found = [limits(1.5), limits(1.5), limits(1.5, ("others took 80 % of the CPUs",)), limits(34.0)]
    truth = machine_of(found[0], target)
    assert truth.memory_rate == 0.5
    monkeypatch.setattr(calibrate, "measure_limits", lambda *_, **__: found.pop(0))
    assert calibrate.calibrated(target) == MeasuredMachine(truth, ())
    machine, signs = calibrate.calibrated(target, doubts=True)
    assert signs == ("memory_rate 0.5 cannot be true",) and machine.memory_rate > 4
    machine, signs = calibrate.calibrated(target)
    assert len(signs) == 2 and machine.memory_rate > 4
    assert calibrate.calibrated(target, doubts=True).signs == ()


def test_what_two_measurements_show_together_is_by_the_second():
    halved = replace(QUIET, clock_ghz=1.5, l2_rate=128.0, l3_rate=53.8, memory_rate=4.0)
    both = fastest(halved, QUIET)
    assert both == fastest(QUIET, halved) == QUIET
    assert fastest(replace(QUIET, l3_bytes=8 << 20), QUIET).l3_bytes == QUIET.l3_bytes


def test_ratios_are_by_the_second():
    halved = replace(QUIET, clock_ghz=1.5, l2_rate=128.0)
    found = ratios(halved, QUIET)
    assert found["l2_rate"] == 1.0 and found["l3_rate"] == found["vectors_per_cycle"] == 0.5
    assert set(found.values()) == {0.5, 1.0}
