"""Machines that are kept, measured and looked at, for tests of these."""

from datetime import timedelta

import pytest

from winogen.records import Costs, Machine
from winogen.toolchain import machine, machine_file
from winogen.toolchain.calibrate import MeasuredMachine

MINE = Machine(l3_rate=7.5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    # Whatever CPU this is, and however large its caches are.
    monkeypatch.setattr(machine_file, "costs_of", lambda core: Costs())
    monkeypatch.setattr(machine, "levels", lambda threads, most: {"memory": min(most, 64 << 20)})
    machine._known.cache_clear()
    yield tmp_path
    machine._known.cache_clear()


@pytest.fixture
def later(monkeypatch):
    """``later(days)``: a process that starts so much later."""

    def later(days):
        moment = machine_file.now() + timedelta(days=days)
        for module in (machine, machine_file):
            monkeypatch.setattr(module, "now", lambda: moment)
        machine._known.cache_clear()

    return later


def measures(monkeypatch, *found, signs=()):
    """Measurements find these machines, one after the other; return the seconds of each."""
    left, asked = list(found), []

    def calibrated(seconds, **options):
        asked.append(seconds)
        return MeasuredMachine(left.pop(0), signs)

    monkeypatch.delenv("WINOGEN_CALIBRATE", raising=False)
    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", calibrated)
    return asked
