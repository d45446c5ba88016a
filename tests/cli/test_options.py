"""What several commands read alike, and the files that must not be waited for."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import typer

import winogen as package
from winogen.cli.app import app
from winogen.cli.options import finite, integers, parsed_activation, print_json
from winogen.codegen.ctext import commented
from winogen.codegen.standalone import check_name
from winogen.conv import arguments
from winogen.conv.standalone import standalone
from winogen.errors import InvalidValue
from winogen.records import ACTIVATIONS

SHAPES = ("--input", "1,2,6,6", "--weight", "2,2,3,3", "--isa", "generic")
DEEP = "[" * 100_000


@pytest.mark.parametrize("text", ["", "1,2,3", "a", "1,,2", "1.5", "1;2"])
def test_integers_name_what_they_may_be(text):
    with pytest.raises(InvalidValue, match="allowed: one or two integers with commas"):
        integers("stride", text, 1, 2)


def test_generate_report_and_bench_read_integers_alike(refused, tmp_path):
    assert "stride: got '1,x'" in refused("generate", *SHAPES, "-o", tmp_path, "--stride", "1,x")
    assert "input: got '1,2'" in refused(
        "generate", "--input", "1,2", "--weight", "1,1,1,1", "-o", tmp_path
    )
    line = refused(
        "report", "-o", tmp_path, "--input", "1,1,8,8", "--weight", "1,1,3,3", "--padding", "x"
    )
    assert "padding: got 'x'; allowed: one or two integers" in line
    assert "tile: got '4y6'" in refused("bench", "--tile", "4y6")


def test_times_end(refused):
    for value in (float("inf"), float("nan")):
        with pytest.raises(InvalidValue, match="finite"):
            finite("seconds", value)
    assert "seconds: got inf" in refused("calibrate", "--seconds", "inf")
    assert "min-time: got inf" in refused("bench", "--min-time", "inf")


def test_devices_and_pipes_are_refused(refused, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero"):  # which would be waited for, or read, for ever
        assert "show: got" in refused("bench", "--show", path)
        assert "results: got" in refused("bench", "--results", path)
        assert "results: got" in refused("search", 2, 3, "--results", path)
        words = ("report", "-o", tmp_path / "page")
        assert "layer: got" in refused(*words, path)
        assert "weight: got" in refused(*words, "--input", "1,1,8,8", "--weight", path)


def test_deep_json_is_not_json(refused, tmp_path):
    path = tmp_path / "deep.json"
    path.write_text(DEEP + "\n")
    assert "nested too deeply" in refused("bench", "--show", path)
    assert "nested too deeply" in refused("bench", "--layers", path)
    assert "nested too deeply" in refused("report", "-o", tmp_path / "page", path)
    assert "no result of a search" in refused("search", 2, 3, "--results", path)
    assert path.read_text() == DEEP + "\n"


def test_an_array_larger_than_memory_is_refused(refused, tmp_path):
    path = tmp_path / "huge.npy"
    np.save(path, np.zeros(4, np.float32))
    data = path.read_bytes().replace(b"(4,), }" + b" " * 14, b"(1000000000000000,), }")
    path.write_bytes(data[:128])
    line = refused("report", "-o", tmp_path / "p", "--input", "1,1,8,8", "--weight", path)
    assert "weight: got" in line


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_has_an_option(name):
    known = ACTIVATIONS[name]
    text = known.option.replace("[", "").replace("]", "")
    for parameter, number in zip(known.parameters, ("0.25", "2")):
        text = text.replace(parameter.upper(), number)
    numbers = () if known.per_filter else (0.25, 2.0)[: len(known.parameters)]
    asked = {text: numbers} | ({name: known.defaults} if known.defaults else {})
    for option, parameters in asked.items():
        epilogue = arguments.activation(parsed_activation(option))
        assert (epilogue.activation, epilogue.parameters) == (name, parameters)


@pytest.mark.parametrize(
    "text",
    ["sine", "gelu_tanh", "gelu:x", "clip", "clip:0", "clip:0:x", "relu:1", "prelu:1", ""],
)
def test_an_activation_is_refused_in_the_words_of_the_option(refused, tmp_path, text):
    allowed = "; allowed: relu, leaky_relu:SLOPE, prelu, clip:LO:HI, relu6, "
    for words in (("generate", *SHAPES), ("generate", "--input", "1,1", "--weight", "1,1")):
        line = refused(*words, "-o", tmp_path / "out", "--activation", text)
        assert f"activation: got '{text}'{allowed}" in line


@pytest.mark.parametrize("isa", ["cortex-a53", "avx-512", "armv8-a+dotprod"])
def test_an_unknown_instruction_set_is_named_whole(refused, tmp_path, isa):
    line = refused("generate", *SHAPES[:4], "--isa", isa, "-o", tmp_path / "out")
    assert f'isa: got \'{isa}\'; allowed: "avx512", "avx2"' in line


@pytest.mark.parametrize("dtype", ["int16", "float", "INT8"])
def test_the_types_of_a_layer_include_int8(refused, tmp_path, dtype):
    line = refused("generate", *SHAPES, "--dtype", dtype, "-o", tmp_path / "out")
    assert f"dtype: got '{dtype}'; allowed: \"float32\"" in line and line.endswith(', "int8"')


def commands():
    """All of them, with those of groups: (words, click's command)."""
    found, rest = [], [("", typer.main.get_command(app))]
    while rest:
        words, command = rest.pop()
        rest += [(f"{words} {name}".strip(), one) for name, one in
                 getattr(command, "commands", {}).items()]  # fmt: skip
        found.append((words, command))
    return found


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_help_says_what_each_text_may_be(winogen, words):
    """Not only that it is a text, which some releases of typer call <str>."""
    lines = winogen(*words.split(), "--help").output.splitlines()
    assert not [line for line in lines if " --" in line and "<str>" in line]


@pytest.mark.parametrize("words, command", commands(), ids=lambda one: str(one)[:20])
def test_help_is_wrapped_by_the_terminal(words, command):
    """No paragraph has the line breaks of the source."""
    assert all("\n" not in paragraph for paragraph in (command.help or "").split("\n\n"))


@pytest.mark.parametrize("result", [3, "x", {"mean": "x"}, {"mean": float("nan"), "half_width": 1}])
def test_results_of_another_kind_are_refused(result, refused, tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({"task": {"task": "measure"}, "result": result}) + "\n")
    assert "line 1 of" in refused("search", 2, 3, "--results", path)


@pytest.mark.parametrize("name", ["int", "main", "class", "real", "call", "block", "_Bool", "__x"])
def test_names_that_c_uses_are_refused(name, refused, tmp_path):
    with pytest.raises(InvalidValue, match="name: got"):
        check_name(name)
    assert f"name: got '{name}'" in refused("generate", *SHAPES, "-o", tmp_path, "--name", name)


@pytest.mark.parametrize("host", ["c", "c++", "rust", "ggml"])
def test_a_name_whose_header_is_guarded_by_a_word_of_the_kernel_is_refused(host):
    """A tile is N_H numbers high."""
    with pytest.raises(InvalidValue, match="of which the kernel itself has N_H"):
        standalone((1, 4, 8, 8), (4, 4, 3, 3), name="n", algorithm="mcmr", host=host)


@pytest.mark.parametrize("text", ["*/ int evil; /*", "a\nb", "a\r\x00b", "**//", "/*/"])
def test_comments_hold_any_text(text):
    held = commented(text)
    assert "*/" not in held and "/*" not in held and held.isprintable()


def test_many_layers_are_compared_by_name_once():
    from winogen.tuning import layers

    source = Path(layers.__file__).read_text()
    assert "names.count" not in source  # which made 40,000 layers take 41 seconds


@pytest.mark.parametrize("module", ["winogen", "winogen.cli"])
def test_modules_run_as_the_command(module):
    words = [sys.executable, "-m", module, "--version"]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    assert result.stdout == f"winogen {package.__version__}\n"


def test_public_names_are_listed_once():
    names = dir(package)
    assert len(names) == len(set(names)) and set(package.__all__) <= set(names)
    assert "import_module" not in names


def test_annotations_are_for_others_too():
    assert os.path.isfile(os.path.join(os.path.dirname(package.__file__), "py.typed"))


def test_figures_are_printed_as_json_that_every_program_reads(capsys):
    """Records and what is in them as objects; numbers that JSON lacks as null."""

    class Pair(NamedTuple):
        ours: float
        theirs: float

    @dataclass
    class Record:
        model: object
        times: Pair
        parts: tuple

    print_json(
        Record(object(), Pair(1.5, float("inf")), (1, "a", None)), without="model", more=True
    )
    wanted = {"times": {"ours": 1.5, "theirs": None}, "parts": [1, "a", None], "more": True}
    assert json.loads(capsys.readouterr().out) == wanted


def test_a_plan_of_integers_is_json_too(winogen):
    document = json.loads(winogen("fixed", 2, 3, "--json").stdout)
    best, *_ = document["candidates"]
    assert document["fits"] and best["reason"] == "best" and document["device"]["inputs"] == 8
    assert f"winogen derive 2 3 {best['origin']}" in winogen("fixed", 2, 3).stdout
