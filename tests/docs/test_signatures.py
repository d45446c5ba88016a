"""Options stand in every signature as `Options` lists them, and type checkers see mistakes."""

import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import winogen
from winogen import typing
from winogen.conv import arguments
from winogen.conv.options import NAMES, Options
from winogen.kernels import FFT, algorithms
from winogen.program.summation import NAMES as ORDERS
from winogen.records import ACTIVATIONS, FILTER_TYPES, PRODUCT_TYPES

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "signatures.py"
PUBLIC = ("winogen", *(f"winogen.{name}" for name in "algebra graph numerics onnx torch".split()))


def checked(root=ROOT):
    """What the script says of the files below a folder, and its exit status."""
    command = [sys.executable, SCRIPT, "--check", "--root", root]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout, done.returncode


def test_the_files_are_as_the_script_writes_them():
    assert checked() == ("", 0)


# What changes -> the file, what is there, what comes instead, and the files that then differ.
BREAKS = {
    "a default": ("conv/api.py", 'edge: Edge = "discard"', 'edge: Edge = "direct"', ["api"]),
    "a type": ("torch/functional.py", "dilation: IntOrInts", "dilation: int", ["functional"]),
    "a missing name": ("torch/replacing.py", "    border: Border", "    # border", ["replacing"]),
    "a missing argument": ("torch/base.py", " order, edge, border,", " order, edge,", ["base"]),
    "a text": ("conv/api.py", "Divides C and M.", "Divides C.", ["api"]),
    "an activation": ("typing.py", '| tuple[Literal["clip"], float, float]', "", ["typing"]),
    "a new default": (
        "conv/options.py",
        'edge: Edge = "discard"',
        'edge: Edge = "direct"',
        ["api", "base", "functional", "replacing", "request"],
    ),
    "a new meaning": ("conv/options.py", "Divides C and M.", "A number.", ["api"]),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_difference_is_seen(tmp_path, name):
    file, before, after, found = BREAKS[name]
    for part in ("conv", "torch"):
        shutil.copytree(
            ROOT / "winogen" / part,
            tmp_path / "winogen" / part,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    shutil.copy(ROOT / "winogen/typing.py", tmp_path / "winogen")
    path = tmp_path / "winogen" / file
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")
    told, status = checked(tmp_path)
    assert (sorted(re.findall(r"/(\w+)\.py:", told)), status) == (found, 1)


def test_a_new_option_is_written_everywhere():
    script = import_module_of(SCRIPT)
    source = (ROOT / script.OPTIONS).read_text("utf-8")
    new = source.replace(
        "    # Limits\n", '    speed: int = 3\n    """How fast."""\n\n    # Limits\n'
    )
    text = (ROOT / "winogen/conv/api.py").read_text("utf-8")
    made = script.written(text, script.options(new), {})
    assert made.count("    speed: int = 3,\n") == 6  # conv2d and Conv2d, and those of other ranks
    assert made.count(" speed,") == 6  # the calls of Options in them
    assert "    speed\n        How fast.\n" in made


def import_module_of(path):
    """The module in a file that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_functions_have_all_options_with_their_defaults(rank):
    arrays = ["input", "weight", "bias"]
    call, made = getattr(winogen, f"conv{rank}d"), getattr(winogen, f"Conv{rank}d")
    for function, own in ((call, arrays), (made, arrays[1:])):
        parameters = inspect.signature(function).parameters
        positional = [*own, "stride", "padding", "dilation", "groups"]
        kinds = {name: one.kind for name, one in parameters.items()}
        assert [n for n, kind in kinds.items() if kind == kind.POSITIONAL_OR_KEYWORD] == positional
        assert not {
            kind for kind in kinds.values() if kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD)
        }
        assert [name for name in parameters if name in NAMES] == list(NAMES)
        for field in fields(Options):
            usual = {"layout": arguments.LAYOUTS[rank][0]}.get(field.name, field.default)
            assert parameters[field.name].default == usual is not MISSING
    hints = get_type_hints(call)
    assert hints["layout"] == getattr(typing, f"Layout{rank}d")
    assert hints["activation"] == typing.Activation | None


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_every_function_hands_all_options_on(monkeypatch, rank):
    """An argument at the place of another would be computed with."""

    class Seen(Exception):
        pass

    def options(*values):
        raise Seen(Options(*values))

    monkeypatch.setattr("winogen.conv.api.Options", options)
    named = {name: object() for name in NAMES}
    call, made = getattr(winogen, f"conv{rank}d"), getattr(winogen, f"Conv{rank}d")
    for function, own in ((call, (0, 0)), (made, (0,))):
        with pytest.raises(Seen) as seen:
            function(*own, **named)
        assert vars(seen.value.args[0]) == named


def test_types_allow_what_is_checked():
    assert set(get_args(typing.Algorithm)) == {"auto", FFT, *algorithms()}
    assert set(get_args(typing.Order)) == set(ORDERS)
    assert get_args(typing.FilterType) == FILTER_TYPES
    assert get_args(typing.ProductType) == PRODUCT_TYPES
    names, tuples = set(), set()
    for one in get_args(typing.Activation):
        if get_origin(one) is Literal:
            names |= {*get_args(one)}
        else:
            tuples.add((get_args(get_args(one)[0])[0], len(get_args(one)) - 1))
    assert {*names, *(name for name, _ in tuples)} == {
        (one.spelling or (name,))[0] for name, one in ACTIVATIONS.items()
    }
    for name in names:
        assert arguments.activation(name).activation == name
    for name, count in tuples - {("gelu", 1)}:
        assert arguments.activation((name, *range(1, count + 1))).activation == name
    assert arguments.activation(("gelu", "tanh")).activation == "gelu_tanh"


@pytest.mark.parametrize("name", PUBLIC)
def test_dir_shows_what_is_public(name):
    for extra in {"winogen.torch": ["torch"], "winogen.onnx": ["onnx", "onnxruntime"]}.get(
        name, ()
    ):
        pytest.importorskip(extra)
    module = import_module(name)
    assert dir(module) == sorted(module.__all__) and module.__all__
    assert all(hasattr(module, public) for public in dir(module))


def test_dir_loads_nothing():
    script = (
        "import sys, winogen; dir(winogen); print(*{'numpy', 'sympy', 'cffi'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).stdout == b"\n"


RIGHT = """
import numpy as np
import numpy.typing as npt

import winogen
from winogen.typing import Activation

x: npt.NDArray[np.float32] = np.ones((1, 3, 8, 8), np.float32)
w, slopes = np.ones((4, 3, 3, 3), np.float32), np.ones(4, np.float32)
asked: list[Activation | None] = [None, "relu", ("gelu", "tanh"), ("clip", 0, 6), ("prelu", slopes)]
for one in asked:
    y: npt.NDArray[np.float32] = winogen.conv2d(x, w, None, 1, "same", activation=one)
winogen.conv2d(x, w, padding=((1, 0), 1), tile=(2, 4), order="huffman", threads=2)
winogen.conv2d(x, w, padding=[1, 1], stride=np.int64(2), tolerance=np.float32(1e-3))
conv = winogen.Conv2d(w, slopes, 1, 1, points=[0, 1, "-1/2", "inf"], filter_dtype="float16")
print(conv(x, add_after=y).shape, conv.plan(x.shape).algorithm, winogen.Gemm(w[0, 0])(w[0, 0]).size)
winogen.gemm(w[0, 0], w[0, 0], slopes[:3], activation=("leaky_relu", 0.1), threads=1)
winogen.QConv2d(w.astype(np.int8), w_scale=[0.1], x_scale=np.float32(1), y_scale=1, layout="NHWC")
print(winogen.cook_toom(4, 3).products, winogen.winograd(2, 3, "x,x-1,x^2+1").r)
"""

# Lines of a user -> what mypy says of each.
WRONG = {
    "winogen.conv2d(x, w, paddding=1)": 'Unexpected keyword argument "paddding".*mean "padding"',
    'winogen.conv2d(x, w, layout="NCWH")': "\"layout\".*expected \"Literal\\['NCHW', 'NHWC'\\]\"",
    'winogen.conv2d(x, w, activation="rellu")': "\"activation\".*Literal\\['rellu'\\]",
    'winogen.conv2d(x, w, activation=("clip", 0))': '"activation".*"tuple\\[str, int\\]"',
    'winogen.conv2d(x, w, stride="2")': '"stride" to "conv2d" has incompatible type "str"',
    "winogen.conv2d(x, w, stride=2.0)": '"stride" to "conv2d" has incompatible type "float"',
    "winogen.conv2d(x, w, points=[0.5])": "List item 0 has incompatible type",
    "winogen.conv2d([[1.0]], w)": 'Argument 1 to "conv2d".*"list\\[list\\[float\\]\\]"',
    'winogen.conv2d(x, w, None, 1, 0, 1, 1, "zeros")': "Too many positional arguments",
    'winogen.Conv2d(w, algorithm="winograd")': '"algorithm" to "Conv2d".*\'winograd1d\'',
    'winogen.Conv2d(w, tolerance="1e-4")': '"tolerance" to "Conv2d".*type "str"',
    "winogen.Conv2d(w)(x, bias=w)": 'Unexpected keyword argument "bias"',
    'winogen.QConv2d(w, padding_mode="zeros")': 'Unexpected keyword argument "padding_mode"',
    'winogen.QConv2d(w, y_dtype="int16")': "\"y_dtype\".*Literal\\['int16'\\]",
    'winogen.gemm(w, w, activation="tanhh")': '"activation" to "gemm"',
    "winogen.convolve(x, w)": 'Module has no attribute "convolve"',
    'winogen.torch.conv2d(t, t, algorithm="mmcr")': '"algorithm" to "conv2d"',
    "winogen.torch.conv2d(t, t, groups=None)": '"groups" to "conv2d"',
    'winogen.torch.Conv2d(3, 4, 3, padding_mode="mirror")': '"padding_mode" to "Conv2d"',
    "winogen.torch.Conv2d(3, 4, 3, tile=None, speed=1)": 'Unexpected keyword argument "speed"',
    "winogen.torch.optimize(model, t, tolerence=1e-4)": 'Unexpected keyword argument "tolerence"',
    "winogen.torch.optimize(model, t, threads=1.5)": '"threads" to "optimize"',
    "winogen.torch.replace(model, activation=None)": 'Unexpected keyword argument "activation"',
    'winogen.onnx.optimize("a.onnx", "b.onnx", tolerence=1e-4)': 'argument "tolerence"',
    'winogen.onnx.quantize("a.onnx", [], method="max")': "\"method\".*Literal\\['max'\\]",
    "winogen.cook_toom(2, 3, [0, 0.5, 1, 2])": "List item 1 has incompatible type",
    'winogen.Conv2d(w).plan("1,1,3,3")': 'Argument 1 to "plan"',
    'winogen.numerics.measure(f, trails="many")': 'Unexpected keyword argument "trails"',
}
HEAD = """
import numpy as np, torch, winogen, winogen.numerics, winogen.onnx, winogen.torch
x = w = np.ones((1, 1, 3, 3), np.float32)
t = torch.ones(1, 1, 3, 3); model = torch.nn.ReLU(); f = winogen.cook_toom(2, 3)
"""


@pytest.mark.thorough
def test_mypy_accepts_what_is_right_and_names_what_is_wrong(tmp_path):
    pytest.importorskip("mypy")
    right, wrong, settings = (tmp_path / name for name in ("right.py", "wrong.py", "mypy.ini"))
    right.write_text(RIGHT, "utf-8")
    wrong.write_text(HEAD + "\n".join(WRONG), "utf-8")
    # torch's own types take a minute; those of onnx need not be there.
    settings.write_text(
        "[mypy]\n[mypy-torch.*,onnx.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent"]
    command += ["--config-file", settings, "--cache-dir", tmp_path, right, wrong]
    path = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=path, cwd=tmp_path)
    told = {}
    for file, line, text in re.findall(r"(\w+)\.py:(\d+): error: (.*)", done.stdout):
        told.setdefault((file, int(line)), text)
    first = HEAD.count("\n") + 1
    expected = {("wrong", line): text for line, text in enumerate(WRONG.values(), first)}
    assert told.keys() == expected.keys(), done.stdout
    assert not [told[key] for key, text in expected.items() if not re.search(text, told[key])]


def test_what_type_checkers_accept_runs():
    exec(compile(RIGHT, "right.py", "exec"), {})
