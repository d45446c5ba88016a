"""Every command and option of the app: what is documented works, anything else is one sentence."""

import json
import os
import re
import sys
from importlib.resources import files

import numpy as np
import pytest
from cli.every import commands

from winogen import progress
from winogen.codegen import catalog
from winogen_lab.bench import products

COMMANDS = commands()
LAYER = {"name": "a", "input": [1, 2, 6, 6], "weight": [2, 2, 3, 3], "padding": 1}
SHAPES = ("--input", "1,2,6,6", "--weight", "2,2,3,3")
# How each command is called so that it has little to do. `None`: each call takes long by nature,
# and tests of its own cover it.
SMALL = {
    "derive": "2 3",
    "fixed": "2 3",
    "search": "2 3 --keep 2 --trials 50 --starts 1 --height 2",
    "tolerance": "2 3",
    "verify": "strassen.toml",
    "transforms write": "",
    "transforms check": "",
    "generate": f"{' '.join(SHAPES)} --isa generic -o out",
    "plan": f"{' '.join(SHAPES)} --algorithm direct",
    "tune": "layers.json --seconds 0",
    "calibrate": "--forget",
    "cache": "",
    "engine": "layers.json --multipliers 16",
    "doctor": None,
    "onnx optimize": None,
    "onnx library": None,
    "onnx quantize": None,
    "onnx report": None,
    "bundle": None,
    "compress": None,
    "demo": None,
    "bench": None,
    "report": None,
    "lab explain": "layers.json",
    "lab stack": "layers.json",
    "lab ways": "layers.json",
    "lab strassen": "--sizes 8 --channels 8 --filters 8 --tile 2 --rounds 3",
    "lab front": "--kernels 3 --most 6 --trials 0",
    "lab growth": "--kernels 3 --most 4",
    "lab joined": None,
    "lab fourier": None,
    "lab low-rank": None,
    "lab ranks": None,
    "lab regret": None,
    "lab cover": None,
    "lab loops": f"{' '.join(SHAPES)} --isa avx2",
    "lab schemes": "squeezenet",
    "lab temporaries": "layers.json",
    "lab blocking": "--input 1,16,6,6 --weight 16,16,3,3 --isa avx2",
    "lab search-loops": f"{' '.join(SHAPES)} --count",
    "lab work": "squeezenet",
    "lab engine": "squeezenet",
    "lab word-lengths": None,
}
# Those with many values, each of which takes a kernel or a search.
LONG = ("derive", "generate", "plan", "search", "lab explain", "lab loops", "lab search-loops",
        "lab stack", "lab ways")  # fmt: skip
# What a command cannot do without, where its call is None.
NEEDED = {
    "onnx optimize": "model.onnx -o new.onnx",
    "onnx library": "model.onnx -o new.so",
    "onnx quantize": "model.onnx samples.npy -o new.onnx",
    "onnx report": "model.onnx",
    "bundle": "model.onnx -o new",
    "compress": "model.onnx --budget 2x --data samples.npy -o new.onnx",
    "report": "layers.json -o new",
    "bench": "--layers layers.json --peers none --repeat 1 --min-time 0",
    "lab low-rank": "--layers layers.json --factors 2",
    "lab ranks": "tiny",
    "lab cover": "--layers layers.json --no-nets",
    "lab regret": "--layers layers.json",
    "lab word-lengths": "tiny --tiles 2",
    "lab fourier": "layers.json --only a",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of small inputs, and no word of progress on a busy machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINOGEN_WISDOM", str(tmp_path / "wisdom.jsonl"))
    monkeypatch.setattr(progress, "_FIRST", 3600.0)
    monkeypatch.setattr(products, "is_child", lambda: True)  # else `lab fourier` runs pytest again
    (tmp_path / "layers.json").write_text(json.dumps([LAYER]))
    known = files("winogen.algebra").joinpath("known/strassen.toml")
    (tmp_path / "strassen.toml").write_bytes(known.read_bytes())
    (tmp_path / "catalog.toml").write_text("[[default_points]]\nr = 3\nm = [2]\n")
    monkeypatch.setattr(catalog, "_resolve", lambda folder: tmp_path)
    np.save(tmp_path / "samples.npy", np.zeros((6, 2, 6, 6), np.float32))
    (tmp_path / "model.onnx").write_bytes(b"")
    return tmp_path


def check(result, words):
    """A result, or one sentence: "winogen: ..." or what the parser says of an option."""
    shown = f"winogen {' '.join(map(str, words))}: {result.output}{result.stderr}"
    raised = result.exception
    assert raised is None or isinstance(raised, SystemExit), f"{shown}\n{raised!r}"
    assert result.exit_code in (0, 1, 2), shown
    if result.exit_code == 2:
        said = result.stderr.strip().splitlines()
        ours = [line for line in said if line.startswith("winogen: ")]
        assert len(ours) == 1 or said[0].startswith("Usage: "), shown
        assert "Traceback" not in shown


def test_every_command_is_listed():
    assert list(COMMANDS) == sorted(SMALL)


@pytest.mark.parametrize("command", [
    pytest.param(one, marks=[pytest.mark.thorough] if one in LONG else [])
    for one in COMMANDS if SMALL[one] is not None
])  # fmt: skip
def test_every_documented_value(command, winogen, folder, monkeypatch):
    if command in ("calibrate", "cache"):
        monkeypatch.setenv("WINOGEN_CACHE", str(folder / "cache"))
    words = [*command.split(), *SMALL[command].split()]
    result = winogen(*words)
    check(result, words)
    missing_headers = command == "transforms check"
    assert result.exit_code == missing_headers, result.output + result.stderr
    for one in COMMANDS[command]:
        values = [(one.flag,)] if one.is_switch else [(one.flag, value) for value in one.choices]
        for value in values if one.flag else ():
            check(winogen(*words, *value), [*words, *value])


@pytest.mark.parametrize("command", [
    pytest.param(one, marks=[pytest.mark.thorough] if one in LONG else [])
    for one in COMMANDS if any(known.flag == "--json" for known in COMMANDS[one])
    if SMALL[one] is not None
])  # fmt: skip
def test_json_is_all_that_is_printed(command, winogen, folder, monkeypatch):
    """Everywhere by the same switch; files of results are asked for by --results."""
    if command in ("calibrate", "cache"):
        monkeypatch.setenv("WINOGEN_CACHE", str(folder / "cache"))
    (option,) = (known for known in COMMANDS[command] if known.flag == "--json")
    assert option.is_switch
    result = winogen(*command.split(), *SMALL[command].split(), "--json")
    assert result.exit_code == 0, result.output + result.stderr
    assert json.loads(result.stdout) is not None


BAD_TEXTS = ("?", "", "1,x", "-1", "\N{SNOWMAN}", "9" * 5000)
BAD_NUMBERS = ("x", "-1", "0", "nan", "inf", "9" * 30)


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS)
def test_values_that_are_none_are_refused_in_one_sentence(command, winogen, folder):
    """All at once where one is refused before any work; the first that is not is tried alone."""
    words = [*command.split(), *(SMALL[command] or NEEDED.get(command, "")).split()]
    for one in COMMANDS[command]:
        if one.is_switch or not one.flag or one.is_file or one.flag in words:
            continue
        bad = BAD_TEXTS if one.kind is str else BAD_NUMBERS
        values = bad if SMALL[command] is not None else bad[:1]
        for value in values:
            check(winogen(*words, f"{one.flag}={value}"), [*words, one.flag, value])


def not_files(folder):
    """Paths that are no such file, whatever is asked for."""
    made = {
        "empty": b"",
        "garbage": bytes(range(256)) * 8,
        "nested.json": b"[" * 100_000,
        "nested.toml": b"a = " + b"[" * 100_000,
        "text.json": b'"text"',
        "pickle.npy": b"\x80\x04K\x01.",
        "damaged.npz": b"PK\x03\x04" + bytes(60),
        "garbage.onnx": bytes(range(256)),
        "garbage.pt2": b"PK\x03\x04" + bytes(60),
    }
    for name, data in made.items():
        (folder / name).write_bytes(data)
    os.mkfifo(folder / "fifo")
    os.mkfifo(folder / "fifo.json")
    os.mkfifo(folder / "fifo.onnx")
    os.mkfifo(folder / "fifo.pt2")
    (folder / "folder.json").mkdir()
    (folder / "closed.json").touch(mode=0)
    return [*made, "fifo", "fifo.json", "fifo.onnx", "fifo.pt2", "folder.json", "closed.json",
            "/dev/zero", "/dev/full", "none.json", "none"]  # fmt: skip


WRITTEN = ("output", "plot", "export", "write")
# They read their --results, others write them.
GO_ON = ("search", "lab search-loops", "lab word-lengths")
READ = [
    (command, one)
    for command, known in COMMANDS.items()
    for one in known
    if one.is_file and one.name not in WRITTEN
    if one.name != "results" or command in GO_ON
]


@pytest.mark.thorough
@pytest.mark.parametrize("command, one", READ, ids=lambda one: getattr(one, "name", one))
def test_what_is_no_file_of_the_kind_is_refused(command, one, winogen, folder):
    """Never waited for, never read to the end of memory, never a traceback."""
    usual = [*(SMALL[command] or NEEDED.get(command, "")).split()]
    if one.flag in usual:
        place = usual.index(one.flag) + 1
    elif one.flag:
        place = len(usual) + 1
        usual += [one.flag, ""]
    elif one.name in ("samples",):
        place = 1
    elif usual and not usual[0].startswith("-"):
        place = 0
    else:
        place, usual = 0, ["", "-o", "new"]
    for path in not_files(folder):
        words = [*command.split(), *usual[:place], path, *usual[place + 1 :]]
        check(winogen(*words), words)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_net_takes_packages_that_are_named(command, winogen, folder, monkeypatch):
    """Without any extra, commands that take nets and models say which one brings them."""
    for name in ("torch", "onnx", "onnxruntime", "matplotlib", "joblib", "dask", "sklearn"):
        monkeypatch.setitem(sys.modules, name, None)
    known = {one.name: one for one in COMMANDS[command]}
    names = [known[name] for name in ("layers", "net", "nets") if name in known]
    calls = [[one.flag, "unet"] if one.flag else ["unet"] for one in names if not one.is_switch]
    if "model" in known and NEEDED.get(command):
        calls += [NEEDED[command].split()]
    if "plot" in known and SMALL[command]:
        calls += [[*SMALL[command].split(), "--plot", "new.png"]]
    for words in calls:
        more = ["-o", "new"] if command in ("report",) else []
        more += ["--no-nets"] if command == "lab cover" else []
        whole = [*command.split(), *words, *more]
        result = winogen(*whole)
        check(result, whole)
        assert result.exit_code == 2, whole
        if command not in ("report", "lab low-rank", "lab cover") or "layers" not in known:
            assert re.search(r"pip install '?winogen\[|allowed: ", result.stderr), whole
