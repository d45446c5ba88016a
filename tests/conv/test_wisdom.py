"""What was measured: which entries are believed, for which requests, and what a plan says of it."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import winogen
from winogen.conv import Layer, execute, planner, wisdom
from winogen.conv.candidates import GAUSSIAN
from winogen.conv.choice import Choice, Cut
from winogen.conv.cuts import MeasuredChoice, work_of
from winogen.conv.request import Request
from winogen.errors import CacheUnavailable, InvalidValue
from winogen.graph import choose
from winogen.kernels import general
from winogen.records import TARGETS, Machine, Points
from winogen.toolchain import host_target, pruning

LAYER = Layer.of((16, 16, 3, 3), "float32", padding=1)
PROBLEM = LAYER.problem((1, 16, 12, 12))
TARGET = host_target()
MEASURED = MeasuredChoice(1e-4, 1.5e-4, 1, "2026-11-22")
# Everything that the planner would not do by itself.
CHOICE = Choice("mcmr", (3, 2), (), "direct", "buffer", sizes=(("rows", 5),), cut=Cut((2, 3)))


def line(problem=PROBLEM, choice=CHOICE, measured=MEASURED, tolerance=None, **place):
    made = wisdom.record(problem, tolerance, TARGET, choice, measured)
    return {**made, "place": {**made["place"], **place}}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file in use, in a folder that is no cache."""
    path = tmp_path / "shipped.jsonl"
    monkeypatch.setenv("WINOGEN_WISDOM", str(path))
    wisdom.forget()
    yield path
    wisdom.forget()


def ranked(problem=PROBLEM, **options):
    request = Request.of(problem.layer, **{"threads": 1, **options})
    known = wisdom.current(TARGET)
    return planner.ranked(problem, request, TARGET, Machine(), planner.ALTERNATIVES, known)


def choice(problem=PROBLEM, **options):
    return ranked(problem, **options)[0].choice


# ---- what an entry does --------------------------------------------------------------------------


def test_an_entry_changes_the_plan_and_the_plan_says_so(file):
    wisdom.add([line()], file)
    first, second, *_ = ranked()
    assert first.choice == CHOICE and first.measured == MEASURED
    assert second.measured is None and first.seconds == pytest.approx(second.seconds / 1.5)
    conv = winogen.Conv2d(np.ones((16, 16, 3, 3), np.float32), padding=1, threads=1)
    plan = conv.plan((1, 16, 12, 12))
    assert (plan.algorithm, plan.tile, plan.edge, plan.border) == (
        "mcmr",
        (3, 2),
        "direct",
        "buffer",
    )
    assert plan.sizes == (("rows", 5),) and plan.measured == MEASURED
    text = " ".join(str(plan).split())
    assert "tuned rows 5" in text
    assert "measured 0.1 ms, 1.50 times as fast as what was predicted to be fastest" in text
    assert "tuned: rows; else" in plan.source
    x = np.random.default_rng(0).standard_normal((1, 16, 12, 12), np.float32)
    plain = winogen.conv2d(x, np.ones((16, 16, 3, 3), np.float32), padding=1, algorithm="direct")
    assert np.allclose(conv(x), plain, atol=1e-3)


def test_without_the_file_and_with_0_the_planner_chooses(file, monkeypatch):
    wisdom.add([line()], file)
    assert choice() == CHOICE
    predicted = planner.ranked(PROBLEM, Request(), TARGET, Machine())[0].choice
    monkeypatch.setenv("WINOGEN_WISDOM", "0")
    assert wisdom.path() is None and choice() == predicted != CHOICE
    # Bound problems are remembered by the variable.
    conv = winogen.Conv2d(np.ones((16, 16, 3, 3), np.float32), padding=1, threads=1)
    assert conv.plan((1, 16, 12, 12)).measured is None
    monkeypatch.setenv("WINOGEN_WISDOM", str(file))
    assert conv.plan((1, 16, 12, 12)).measured == MEASURED


@pytest.mark.parametrize(
    "options",
    [
        dict(algorithm="mcmr"),
        dict(algorithm="direct"),
        dict(tile=2),
        dict(tile=(3, 2)),
        dict(points="0,1,-1,2,inf"),
        dict(moduli="x,x-1,x+1,x^2+1,inf"),
        dict(order="naive"),
        dict(edge="direct"),
        dict(border="indirect"),
        dict(workspace_limit=1 << 20),
        dict(tolerance=1e-5),
    ],
    ids=str,
)
def test_what_a_request_names_is_kept_to(file, options):
    wisdom.add([line()], file)
    request = Request.of(LAYER, threads=1, **options)
    first = planner.ranked(PROBLEM, request, TARGET, Machine())[0]
    assert ranked(**options)[0].choice == first.choice and ranked(**options)[0].measured is None


def test_entries_of_a_tolerance_are_for_that_tolerance(file):
    wisdom.add([line(tolerance=1e-5)], file)
    assert choice(tolerance=1e-5) == CHOICE
    assert choice() != CHOICE and choice(tolerance=2e-5) != CHOICE


def test_one_choice_serves_any_number_of_threads(file):
    """So that bits do not depend on threads; only the blocks are those of the measurement."""
    wisdom.add([line()], file)
    two = choice(threads=2)
    assert two == replace(CHOICE, threads=2, cut=None)
    wisdom.add([line(measured=replace(MEASURED, threads=2, date="2026-11-23"))], file)
    assert choice(threads=2) == replace(CHOICE, threads=2)
    assert choice() == replace(CHOICE, cut=None)


@pytest.mark.parametrize(
    "problem",
    [
        LAYER.problem((2, 16, 12, 12)),
        LAYER.problem((1, 16, 12, 13)),
        Layer.of((16, 16, 3, 3), "float64", padding=1).problem((1, 16, 12, 12)),
        Layer.of((16, 16, 3, 3), "float32", padding=1, layout="NHWC").problem((1, 12, 12, 16)),
        Layer.of((16, 16, 3, 3), "float32").problem((1, 16, 12, 12)),
        Layer.of((32, 16, 3, 3), "float32", padding=1).problem((1, 16, 12, 12)),
        Layer.of((16, 16, 3, 3), "float32", padding=1, dilation=(1, 1), stride=2).problem(
            (1, 16, 12, 12)
        ),
        Layer.of((16, 8, 3, 3), "float32", padding=1, groups=2).problem((1, 16, 12, 12)),
        Layer.of((16, 16, 3, 3), "float32", padding=1, padding_mode="reflect").problem(
            (1, 16, 12, 12)
        ),
    ],
)
def test_an_entry_is_for_its_layer_only(file, problem):
    wisdom.add([line()], file)
    assert ranked(problem)[0].measured is None


def test_activation_additions_and_slices_share_an_entry(file):
    wisdom.add([line()], file)
    made = Layer.of((16, 16, 3, 3), "float32", padding=1, activation="silu")
    sewn = made.problem((1, 16, 12, 12)).sewn(PROBLEM.seams._replace(input=40, add=16))
    assert choice(sewn) == CHOICE
    unbatched = LAYER.problem((16, 12, 12))
    assert choice(unbatched) == CHOICE


def test_networks_use_it_too(file):
    wisdom.add([line()], file)
    request = Request.of(LAYER, threads=1)
    first, *others = choose.ways(PROBLEM, request, TARGET, Machine())
    assert first.candidate.choice == CHOICE and first.candidate.measured == MEASURED
    assert others[-1].candidate.choice.tile is None
    wisdom.add([line(choice=Choice("direct"), measured=replace(MEASURED, date="2027-01-01"))], file)
    assert (
        choose.ways(PROBLEM, request, TARGET, Machine())[0].candidate.choice.algorithm == "direct"
    )


# ---- which entries are believed ------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [dict(cpu="Z80"), dict(isa="mmx")])
def test_entries_of_other_machines_are_left_alone(file, wrong):
    wisdom.add([line(**wrong)], file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choice() != CHOICE
    wisdom.add([line()], file)
    assert choice() == CHOICE and len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize("wrong", [dict(winogen="0.0.1")])
def test_entries_of_other_versions_are_skipped_with_a_warning(file, wrong):
    wisdom.add([line(**wrong)], file)
    with pytest.warns(RuntimeWarning, match=f"{re.escape(str(file))} has 1 entry of another"):
        assert choice() != CHOICE
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said
        assert choice() != CHOICE


DAMAGES = [
    "", "{", "[]", "null", "7", '{"place": 3}', "\x00\xff", "[" * 100_000, "7" * 5000,
    '{"place": {}, "layer": {}, "choice": {}, "measured": {}}',
]  # fmt: skip
CHANGES = [
    ("seconds", "NaN"), ("seconds", "0"), ("planner_seconds", "-1"), ("threads", "0"),
    ("threads", "1.5"), ("algorithm", '"magic"'), ("edge", '"round"'), ("border", "null"),
    ("tile", "[0, 2]"), ("tile", "[2]"), ("tile", '"22"'), ("rows", '"many"'), ("block", "[1, -1]"),
    ("input", "3"), ("cpu", "3"), ("tile", '[3, 2], "points": [3, 3]'),
]  # fmt: skip


def changed(text, field, value):
    new, count = re.subn(rf'("{field}": )(\[[^]]*\]|\{{[^}}]*\}}|[^,}}]+)', rf"\g<1>{value}", text)
    assert count == 1, field
    return new


@pytest.mark.parametrize("damage", [*DAMAGES, *CHANGES], ids=lambda damage: str(damage)[:30])
def test_a_damaged_line_costs_that_line_and_is_named(file, damage):
    good, bad = json.dumps(line()), damage
    if isinstance(damage, tuple):
        bad = changed(json.dumps(line(LAYER.problem((3, 16, 12, 12)))), *damage)
    file.write_text(f"{good}\n{bad}\n")
    if not bad:
        assert choice() == CHOICE
        return
    with pytest.warns(RuntimeWarning, match=rf"{re.escape(str(file))} has a line \(2\) that"):
        assert choice() == CHOICE
    assert ranked(LAYER.problem((3, 16, 12, 12)))[0].measured is None
    # The next entry that is added leaves it out.
    wisdom.add([line(LAYER.problem((2, 16, 12, 12)))], file)
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        replace(CHOICE, sizes=(("rows", 31),)),
        replace(CHOICE, sizes=(("depth", 7),)),
        replace(CHOICE, sizes=(("colour", 3),)),
        replace(CHOICE, tile=None),
        replace(CHOICE, tile=(17, 17)),
        replace(CHOICE, algorithm="direct"),
        replace(CHOICE, algorithm="winograd1d"),
        replace(CHOICE, points=(Points("points", ("0", "0", "1", "inf")), None)),
        replace(CHOICE, points=(Points("catalog", ("missing",)), None)),
        replace(CHOICE, variant="planes"),
        replace(CHOICE, variant="winograd1d"),
        Choice("direct", variant="planes"),
        # As accurate as the default promises is none of it.
        replace(CHOICE, tile=(8, 8)),
    ],
    ids=str,
)
def test_a_choice_that_cannot_be_or_is_not_accurate_is_not_believed(file, wrong):
    wisdom.add([line(choice=wrong)], file)
    assert ranked()[0].measured is None


def test_winograd_is_not_believed_of_a_stride_beyond_its_tiles(file):
    strided = Layer.of((16, 16, 3, 3), "float32", padding=1, stride=5).problem((1, 16, 12, 12))
    wisdom.add([line(strided)], file)
    assert ranked(strided)[0].measured is None
    wisdom.add([line(strided, Choice("im2col"), replace(MEASURED, date="2027-01-01"))], file)
    assert choice(strided) == Choice("im2col")


@pytest.mark.parametrize(
    "made",
    [
        CHOICE,
        Choice(
            "direct",
            variant="direct",
            sizes=(("band", 18), ("depth", 64), ("rows", 3), ("vectors", 3)),
        ),
        Choice("mcmr", (4, 4), (GAUSSIAN, None), cut=Cut((1, 1), 3, True)),
        Choice("mcmr", (2, 2), order="huffman"),
        Choice("winograd1d", (1, 4), (None, Points("moduli", ("x", "x-1", "x+1", "x^2+1", "inf")))),
    ],
    ids=str,
)
def test_a_choice_comes_back_as_it_was(file, made):
    wisdom.add([line(choice=made)], file)
    assert choice() == made


def test_a_generated_nest_is_kept_as_its_parameters(file):
    """What is no nest of this layer is not believed."""
    work = work_of(PROBLEM, Choice("loops"), TARGET)
    usual, *others = general("loops").parameters(work)
    assert others and usual not in others
    made = Choice("loops", parameters=others[-1])
    wisdom.add([line(choice=made)], file)
    assert choice() == made
    wrong = line(choice=made, measured=replace(MEASURED, date="2027-01-01"))
    wrong["choice"]["parameters"]["pixels"] = 1000
    wisdom.add([wrong], file)
    assert ranked()[0].measured is None


def test_a_variant_that_is_not_the_first_can_be_asked_for(file):
    file.write_text("")
    few = Layer.of((2, 40, 3, 3), "float32", padding=1, stride=2).problem((1, 40, 9, 20))
    assert ranked(few)[0].works(few)[0].variant == "pixels"
    wisdom.add([line(few, Choice("direct", variant="direct"))], file)
    assert ranked(few)[0].works(few)[0].variant == "direct"


# ---- the file ------------------------------------------------------------------------------------


def test_newer_entries_replace_older_ones_whatever_is_merged_first(file, tmp_path):
    old, new = line(), line(measured=replace(MEASURED, seconds=9e-5, date="2026-12-01"))
    other = line(LAYER.problem((2, 16, 12, 12)), cpu="Z80")
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    assert wisdom.add([old, other], first) == 2 and wisdom.add([new], second) == 1
    for files in ((first, second), (second, first)):
        file.unlink(missing_ok=True)
        wisdom.merge(files, file)
        records, damaged = wisdom.read(file)
        assert sorted(map(wisdom._text, records)) == sorted(map(wisdom._text, [new, other]))
        assert not damaged
    assert wisdom.merge([first, second], file) == (0, 0)
    assert choice() == CHOICE


def test_merging_what_is_no_file_says_so(file, tmp_path):
    with pytest.raises(InvalidValue, match=r"merge: got '.*missing.*; allowed: files"):
        wisdom.merge([tmp_path / "missing"], file)
    assert not file.exists()


def test_a_file_that_is_asked_for_and_is_not_there_is_missed(file):
    with pytest.warns(RuntimeWarning, match=f"{re.escape(str(file))} is no file"):
        choice()


def test_a_file_in_a_folder_that_cannot_be_written_is_refused_before_any_work(
    tmp_path, monkeypatch
):
    (tmp_path / "plain").write_text("")  # a folder below it cannot be made, even by root
    where = tmp_path / "plain" / "wisdom.jsonl"
    with pytest.raises(CacheUnavailable, match=r"cannot be written .*allowed: a WINOGEN_WISDOM"):
        wisdom.check_writable(where)
    wisdom.check_writable(tmp_path / "new" / "wisdom.jsonl")
    assert {path.name for path in (tmp_path / "new").iterdir()} <= {"wisdom.lock"}


def test_the_file_of_the_cache_is_this_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WINOGEN_WISDOM")
    where = wisdom.path()
    assert where == tmp_path / "cache" / "wisdom.jsonl"
    wisdom.forget()
    assert choice() != CHOICE  # and no warning: there is nothing yet
    wisdom.add([line()], where)
    assert choice() == CHOICE
    pruning.prune(tmp_path / "cache", -1, recent=0)
    assert where.is_file()
    where.chmod(0o666)
    wisdom.forget()
    with pytest.warns(RuntimeWarning, match=r"is not used: .* not a file that only you can write"):
        assert choice() != CHOICE
    wisdom.forget()


ADDING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conv.test_wisdom import LAYER, line
from winogen.conv import wisdom
print("ready", flush=True)
sys.stdin.readline()
for size in range(4):
    wisdom.add([line(LAYER.problem((1, 16, 12, 20 + size)), cpu=sys.argv[3])], Path(sys.argv[2]))
"""


def adding(file, name):
    tests = os.path.join(os.path.dirname(__file__), "..")
    words = [sys.executable, "-c", ADDING, tests, str(file), name]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_two_processes_lose_nothing_of_each_other(file):
    processes = [adding(file, name) for name in ("first", "second")]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(60) for process in processes] == [0, 0]
    records, damaged = wisdom.read(file)
    assert len(records) == 8 and not damaged


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from conv import test_wisdom
from pathlib import Path
os.replace = lambda draft, path: os.kill(os.getpid(), signal.SIGKILL)
test_wisdom.wisdom.add([test_wisdom.line(cpu="Z80")], Path(sys.argv[2]))
"""


def test_a_kill_in_the_middle_of_writing_leaves_what_was_there(file):
    wisdom.add([line()], file)
    before = file.read_bytes()
    tests = os.path.join(os.path.dirname(__file__), "..")
    died = subprocess.run([sys.executable, "-c", KILLED, tests, str(file)], check=False)
    assert died.returncode == -signal.SIGKILL and file.read_bytes() == before
    assert wisdom.add([line(cpu="Z81")], file) == 1  # nobody holds the lock
    assert len(wisdom.read(file)[0]) == 2


def test_the_environment_is_part_of_what_is_remembered(monkeypatch):
    monkeypatch.setenv("WINOGEN_WISDOM", "0")
    without = execute.Environment.now()
    monkeypatch.setenv("WINOGEN_WISDOM", "elsewhere")
    assert execute.Environment.now() != without


def test_there_is_no_wisdom_for_files_of_c(file):
    """What `generate` writes is the same wherever it is made."""
    wisdom.add([line()], file)
    from winogen.conv.standalone import standalone

    texts = standalone((1, 16, 12, 12), (16, 16, 3, 3), padding=1)
    assert not any("tuned" in text for text in texts.values())


def test_other_targets_have_other_places():
    assert wisdom.place(TARGETS["neon"]) != wisdom.place(TARGETS["avx2"])
