"""Plans of earlier processes: recalled as they were, and never taken for what they are not."""

import dataclasses
import json
import subprocess
import sys
import zlib

import numpy as np
import pytest

from winogen.conv import accuracy, planner, query, rankings, solvers, wisdom
from winogen.conv.cuts import MeasuredChoice
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.conv.stock import Stock, only, stock_of
from winogen.conv.wisdom import NOTHING
from winogen.graph import choose
from winogen.records import TARGETS, Machine
from winogen.rounding import variance
from winogen.toolchain import blobs, host_target

LAYER = Layer.of((16, 16, 3, 3), "float32", padding=1)
PROBLEM, USUAL, MACHINE = LAYER.problem((1, 16, 28, 28)), Request(), Machine()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where rankings are kept in this test."""
    monkeypatch.setattr(blobs, "cache_root", lambda: tmp_path)
    monkeypatch.setenv("WINOGEN_WISDOM", str(tmp_path / "wisdom.jsonl"))
    (tmp_path / "wisdom.jsonl").touch()
    return tmp_path / "plans"


def chosen(problem=PROBLEM, request=USUAL, target=None, machine=MACHINE):
    asked = query.Query.here(problem, request, target or host_target(), machine)
    return solvers.chosen(asked).candidates


@pytest.fixture
def once(monkeypatch):
    """A list of the problems that were ranked."""
    ranked, rank = [], planner.rank
    monkeypatch.setattr(
        planner, "rank", lambda query, *rest: ranked.append(query.problem) or rank(query, *rest)
    )
    return ranked


def volumes():
    layer = Layer.of((8, 8, 3, 3, 3), "float32", layout="NCDHW", padding=1)
    return layer.problem((1, 8, 6, 12, 12)), Request()


def a_layer(shape, weight, request=USUAL, dtype="float32", **options):
    return Layer.of(weight, dtype, **options).problem(shape), request


CASES = {
    "tiles": a_layer((1, 16, 28, 28), (16, 16, 3, 3), padding=1),
    "threads": a_layer((2, 16, 28, 28), (16, 16, 3, 3), Request(threads=3), padding=1),
    "stride": a_layer((1, 16, 29, 27), (24, 16, 3, 3), stride=2, padding=1),
    "pointwise": a_layer((1, 32, 14, 14), (48, 32, 1, 1)),
    "depthwise": a_layer((1, 32, 14, 14), (32, 1, 3, 3), groups=32, padding=1),
    "large": a_layer((1, 8, 40, 40), (8, 8, 5, 5), padding=2, layout="NCHW"),
    "last": a_layer((1, 20, 20, 16), (16, 16, 3, 3), padding=1, layout="NHWC"),
    "float64": a_layer((1, 16, 28, 28), (16, 16, 3, 3), dtype="float64", padding=1),
    "tolerance": a_layer((1, 16, 28, 28), (16, 16, 3, 3), Request(tolerance=1e-3), padding=1),
    "workspace": a_layer(
        (1, 64, 28, 28), (64, 64, 3, 3), Request(workspace_limit=1 << 18), padding=1
    ),
    "direct edge": a_layer((1, 16, 27, 27), (16, 16, 3, 3), Request(tile=(4, 4), edge="direct")),
    "volumes": volumes(),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_recalled_is_what_was_ranked(name, once, folder):
    problem, request = CASES[name]
    first = chosen(problem, request)
    assert len(once) == 1 and len(list(folder.iterdir())) == 1
    again = chosen(problem, request)
    assert len(once) == 1
    for one, other in zip(first, again, strict=True):
        assert one.choice == other.choice and one.works(problem) == other.works(problem)
        assert one.seconds == other.seconds and one.workspace_bytes == other.workspace_bytes
        assert one.target == other.target and one.specs(problem) == other.specs(problem)


def test_ways_of_a_net_are_recalled_with_the_bytes_of_their_filters(once):
    arguments = PROBLEM, Request(), host_target(), MACHINE, 1e-6
    first = choose.ways(*arguments)
    ranked = len(once)
    choose.forget()
    again = choose.ways(*arguments)
    assert ranked and len(once) == ranked and len(first) > 1
    assert [way.packed_bytes for way in again] == [way.packed_bytes for way in first]
    assert [way.candidate.choice for way in again] == [way.candidate.choice for way in first]
    choose.forget()


def test_errors_are_recalled_with_the_ways(monkeypatch):
    asked = query.Query.here(PROBLEM, USUAL, host_target(), MACHINE)
    first = solvers.chosen(asked).predictions
    monkeypatch.setattr(accuracy, "_recalled", {})
    accuracy._predicted.cache_clear()
    monkeypatch.setattr(variance, "estimate", None)
    assert solvers.chosen(asked).predictions == first


@pytest.mark.parametrize(
    "harm",
    (
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:70] + bytes([data[70] ^ 1]) + data[71:],
        lambda data: b"another file\n",
    ),
)
def test_a_damaged_file_is_written_again(harm, once, folder):
    first = chosen()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(harm(whole))
    assert [one.choice for one in chosen()] == [one.choice for one in first]
    assert len(once) == 2 and file.read_bytes() == whole


@pytest.mark.parametrize(
    "name, value",
    (
        ("choice", {"algorithm": "no such"}),
        ("choice", {"algorithm": "winograd2d", "tile": [2, 2], "nonsense": 1}),
        ("target", "no such"),
        ("seconds", 1e-9),
        ("workspace", 7),
        ("seconds", None),
        ("error", "much"),
    ),
)
def test_a_record_that_does_not_hold_is_not_taken(name, value, once, folder):
    """Of a whole file, as one that another state of the code might have written."""
    first = chosen()
    (file,) = folder.iterdir()
    records = json.loads(zlib.decompress(blobs.read("plans", file.name)))
    records[0][name] = value
    blobs.write("plans", file.name, zlib.compress(json.dumps(records).encode()))
    assert [one.choice for one in chosen()] == [one.choice for one in first] and len(once) == 2


def test_each_file_holds_for_one_state_of_everything(monkeypatch, once, folder):
    chosen()
    wise = wisdom.Wisdom(
        {"a layer": wisdom.Entry(chosen()[0].choice, MeasuredChoice(1.0, 2.0, 1, "2026-01-01"))}
    )
    for problem, machine in (
        (LAYER.problem((1, 16, 28, 30)), MACHINE),
        (PROBLEM, dataclasses.replace(MACHINE, memory_rate=MACHINE.memory_rate * 1.5)),
    ):
        chosen(problem, machine=machine)
    chosen(target=dataclasses.replace(host_target(), core="another"))
    for module, name, made in (
        (rankings, "_code", lambda: "another version"),
        (rankings.wisdom, "current", lambda target: wise),
        (query, "stock_of", lambda target: Stock("nothing compiles here")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, made)
            patch.setattr(Stock, "has", lambda stock, specs: True)
            chosen()
    with monkeypatch.context() as patch:
        patch.setattr(np, "__version__", "0.1")
        chosen()
    assert len(once) == len(list(folder.iterdir())) == 8


def test_a_kernel_that_went_is_not_planned_with(monkeypatch, once):
    kernels = frozenset(spec for one in chosen() for spec in one.specs(PROBLEM))
    stock = only(kernels)
    monkeypatch.setattr(query, "stock_of", lambda target: stock)
    first = chosen()
    before = len(once)
    assert [one.choice for one in chosen()] == [one.choice for one in first]
    assert len(once) == before
    gone = first[0].specs(PROBLEM)[0]
    monkeypatch.setattr(stock, "_specs", kernels - {gone})
    stock._known.clear()
    assert all(gone not in one.specs(PROBLEM) for one in chosen()) and len(once) == before + 1


def test_kernels_that_appear_make_other_plans(monkeypatch, tmp_path):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    target = host_target()
    before = Stock("no compiler").digest(target)
    (tmp_path / "cache" / "building-0" / "x").mkdir(parents=True)
    assert Stock("no compiler").digest(target) == before
    (tmp_path / "cache" / f"kernel-{0:032x}").mkdir()
    assert Stock("no compiler").digest(target) != before


def test_where_a_compiler_runs_in_the_background_nothing_is_kept(monkeypatch, once, folder):
    """The next plan is to be a better one."""
    monkeypatch.setattr(query, "stock_of", lambda target: Stock())
    monkeypatch.setattr(Stock, "has", lambda stock, specs: True)
    chosen(), chosen()
    assert len(once) == 2 and not folder.exists()


def test_wisdom_0_neither_keeps_nor_recalls(monkeypatch, once, folder):
    monkeypatch.setenv("WINOGEN_WISDOM", "0")
    chosen(), chosen()
    assert len(once) == 2 and not folder.exists()


def test_a_folder_that_cannot_be_written_only_costs_time(once, folder):
    folder.write_text("a file in its place")
    assert [one.choice for one in chosen()] == [one.choice for one in chosen()]
    assert len(once) == 2 and folder.is_file()


def test_a_full_disk_only_costs_time(monkeypatch, once, folder):
    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("winogen.toolchain.cache.os.replace", full)
    chosen(), chosen()
    assert len(once) == 2 and not list(folder.iterdir())


def test_what_cannot_be_ranked_says_so_every_time(folder):
    for _ in range(2):
        with pytest.raises(ValueError, match="^tolerance: got 1e-12"):
            chosen(request=Request(tolerance=1e-12))
    assert not folder.exists()


_PROCESS = """
import os
from winogen.conv import planner, solvers
from winogen.conv.query import Query
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.records import Machine
from winogen.toolchain import host_target
problem = Layer.of((16, 16, 3, 3), "float32", padding=1).problem((1, 16, 28, 28))
found = solvers.chosen(Query.here(problem, Request(), host_target(), Machine())).candidates
print([(one.choice, one.seconds) for one in found])
"""


def test_processes_at_once_and_later_plan_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    command = [sys.executable, "-c", _PROCESS]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    texts = {one.communicate()[0] for one in running}
    (file,) = (tmp_path / "cache" / "plans").iterdir()
    before = file.read_bytes()
    texts.add(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert len(texts) == 1 and file.read_bytes() == before


def test_plans_for_other_machines_are_recalled_too(once):
    """C for another target is wanted: nothing at hand has a say."""
    target = next(one for one in TARGETS.values() if stock_of(one) is None)
    first = chosen(target=target)
    assert [one.choice for one in chosen(target=target)] == [one.choice for one in first]
    assert len(once) == 1 and NOTHING.digest == wisdom.Wisdom().digest
