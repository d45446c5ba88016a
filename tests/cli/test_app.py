"""The command line as a whole: help, version, and how failures look."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import winogen as package
from winogen.conv.options import NAMES

COMMANDS = (
    ("derive",),
    ("transforms", "write"),
    ("transforms", "check"),
    ("generate",),
    ("demo",),
)


def shapes(image, weight):
    """The options that say a layer's shapes."""
    return "--input", image, "--weight", weight


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
def test_every_command_has_help_with_an_example(winogen, command):
    result = winogen(*command, "--help")
    assert result.exit_code == 0
    assert f"Example: winogen {' '.join(command)}" in result.output


def test_without_arguments_it_lists_the_commands(winogen):
    output = winogen().output
    for command in COMMANDS:
        assert command[0] in output


def test_version(winogen):
    assert winogen("--version").output == f"winogen {package.__version__}\n"


def test_an_expected_error_is_one_line_and_status_2(refused):
    assert refused("derive", 0, 3) == "winogen: m: got 0; allowed: an integer >= 1"


@pytest.mark.parametrize(
    "option", ["derive 6 3 --format", "search 4 3 --objective", "bench --dtype"]
)
def test_a_word_that_is_no_choice_is_refused_without_a_library_s_words(winogen, option):
    result = winogen(*option.split(), "sympy")
    said = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2 and f"'{option.split()[-1]}': 'sympy' is not one of " in said


def test_a_folder_that_cannot_be_written_is_one_line(refused, tmp_path):
    (tmp_path / "file").touch()
    line = refused(
        *("generate", "--input", "1,1,4,4", "--weight", "1,1,3,3", "--isa", "generic"),
        *("-o", tmp_path / "file" / "out"),
    )
    assert "Not a directory" in line


def test_the_installed_command_sets_the_exit_status():
    code = "import sys; sys.argv = ['winogen', 'derive', '2', '3', '--points', '0,1']; "
    run = subprocess.run(
        [sys.executable, "-c", code + "from winogen.cli import main; main()"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "points: got 2" in run.stderr and not run.stdout


def test_without_colour_wins():
    """NO_COLOR over what forces it: not one escape."""
    run = subprocess.run(
        [sys.executable, "-m", "winogen", "--help"],
        env={**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "derive" in run.stdout and "\x1b" not in run.stdout


def test_a_closed_pipe_is_no_traceback():
    code = "import sys; sys.argv = ['winogen', 'derive', '8', '3']; "
    run = subprocess.run(
        f'{sys.executable} -c "{code}from winogen.cli import main; main()" | true',
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("words, match", [
    (shapes("1,16,8,8", "16,-16,3,3"), "weight: got shape (16, -16, 3, 3)"),
    (shapes("1,16,8,8", "16,8,3,3"), "input: got 16 channels"),
    (shapes("1,99999999,8,8", "99999999,99999999,3,3"), "weight"),
])  # fmt: skip
def test_a_plan_of_what_is_no_layer_is_refused(winogen, words, match):
    result = winogen("plan", *words)
    assert result.exit_code == 2
    assert match in " ".join(result.stderr.split())


def test_a_plan_is_what_conv2d_follows(winogen):
    words = ("plan", *shapes("1,4,9,8", "8,4,3,3"), "--padding", "1,0", "--activation", "clip:0:6")
    output = winogen(*words, "--layout", "NHWC", "--algorithm", "direct", "--threads", 1).output
    conv = package.Conv2d(
        np.zeros((8, 4, 3, 3), np.float32), padding=(1, 0), activation=("clip", 0, 6),
        layout="NHWC", algorithm="direct", threads=1,
    )  # fmt: skip
    assert output == f"{conv.plan((1, 9, 8, 4))}\n"
    assert "conv2d float32 NHWC: 1x9x8x4 * 8x4x3x3 -> 1x9x6x8" in output
    assert "run_part" in winogen(*words[:5], "--algorithm", "im2col", "--source").output
    fields = json.loads(winogen(*words[:5], "--algorithm", "im2col", "--json").output)
    assert fields["algorithm"] == "im2col" and fields["predictions"][0]["seconds"] > 0
    assert fields["with_compiler"] is None and "source" not in fields
    assert winogen(*words[:5], "--source", "--json").exit_code == 2


def test_a_plan_takes_no_filter_for_a_column_times_a_row(winogen):
    said = winogen("plan", "--input", "1,8,90,90", "--weight", "8,1,31,31", "--groups", "8").stdout
    assert "fft" in said and "two passes" not in said


def test_a_plan_of_a_transposed_layer(winogen):
    """Its weights are C, M, K..., of any number of axes."""
    words = ("plan", *shapes("1,8,40", "8,6,3"), "--transposed", "--stride", "2", "--threads", 1)
    output = winogen(*words, "--output-padding", "1", "--padding", "1").output
    layer = package.ConvTranspose1d(
        np.zeros((8, 6, 3), np.float32), stride=2, padding=1, output_padding=1, threads=1
    )
    assert output == f"{layer.plan((1, 8, 40))}\n"
    assert "conv_transpose1d float32 NCW: 1x8x40 * 8x6x3 -> 1x6x80" in output
    fields = json.loads(winogen(*words, "--json").output)
    assert fields["output_shape"] == [1, 6, 81]
    assert all(part["algorithm"] == layer.plan((1, 8, 40)).algorithm for part in fields["parts"])
    assert "run_part" in winogen(*words, "--source").output


def test_a_plan_of_a_product_of_matrices(winogen, refused):
    words = ("plan", *shapes("200,300", "300,64"), "--threads", 1)
    plan = package.Gemm(np.zeros((300, 64), np.float32), threads=1).plan((200, 300))
    assert winogen(*words).output == f"{plan}\n" and str(plan).startswith("gemm float32")
    assert json.loads(winogen(*words, "--json").output)["operation"] == "gemm"
    assert "run_part" in winogen(*words, "--activation", "relu", "--source").output
    assert "tile: got 2 for a product" in refused(*words, "--tile", "2")
    assert "a: got shape (200, 301)" in refused("plan", *shapes("200,301", "300,64"))


@pytest.mark.parametrize("words, match", [
    (("--output-padding", "1"), "output_padding: got '1'; allowed: only with --transposed"),
    (("--transposed", "--edge", "direct"), "edge: got 'direct'; allowed: only without"),
    (("--transposed", "--output-padding", "2"), "output_padding: got (2,); allowed: less than"),
    (("--transposed", "--algorithm", "winograd2d"), 'algorithm: got "winograd2d" for a transposed'),
])  # fmt: skip
def test_what_only_some_layers_have(refused, words, match):
    assert match in refused("plan", *shapes("1,8,40", "8,6,3"), *words)


def test_commands_have_all_options_of_a_convolution(winogen):
    """One of the list that no command had would be lost in silence."""
    for name in NAMES:
        assert f"--{name.replace('_', '-')} " in winogen("plan", "--help").output


def test_an_option_with_names_is_refused_by_them(refused):
    for words in (("plan",), ("lab", "loops"), ("lab", "search-loops")):
        line = refused(*words, *shapes("1,4,9,8", "8,4,3,3"), "--layout", "CHWN")
        assert "layout: got 'CHWN'; allowed: " in line and '"NCHW", "NHWC"' in line


@pytest.mark.parametrize("command", ["derive", "search", "bench"])
def test_help_breaks_no_choice(winogen, monkeypatch, command):
    """In 80 columns: none of a type's words goes on in the next line."""
    monkeypatch.setenv("COLUMNS", "80")
    help_ = winogen(command, "--help").output
    types = [line for line in help_.splitlines() if re.search(r"<[^>]*\|", line)]
    assert "--" in help_ and not types


def test_help_of_many_options_is_in_panels(winogen):
    for command, panels in (
        ("generate", ("The layer", "How it is computed", "A network", "Layers of 8 bits")),
        ("plan", ("The layer", "How it is computed")),
    ):
        help_ = winogen(command, "--help").output
        assert all(f"╭─ {panel}" in help_ for panel in panels), command
        layer = help_.partition("The layer")[2].partition("╰")[0]
        assert all(f"--{option} " in layer for option in ("weight", "stride", "transposed"))
