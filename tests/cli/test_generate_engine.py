"""winogen generate --backend verilog: an engine in a folder, or a sentence."""

import re
import shutil
import subprocess

import pytest
from codegen.verilog_tools import need

ENGINE = ("--backend", "verilog", "--engine", "2,4,2,1")


def test_the_folder_has_an_engine_and_commands_that_run_it(winogen, tmp_path):
    words = (*ENGINE, "--input", "1,3,5,7", "--weight", "3,3,3,3", "--padding", "same")
    result = winogen("generate", *words, "--activation", "relu", "--name", "core", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    *files, last = result.stdout.splitlines()
    assert sorted(files) == sorted(map(str, tmp_path.iterdir()))
    assert last == (
        "⟨2,4,2,1⟩: 16 multipliers of 10 x 12 bits, up to 3640 channels; 192 cycles for 3 channels "
        "of 5 x 7, 3 filters of 3 x 3, padding 1"
    )
    command = "winogen generate --backend verilog --engine 2,4,2,1 --input 1,3,5,7"
    for file in files:
        if file.endswith(".v"):
            assert any(command in line for line in (tmp_path / file).read_text().splitlines()[:2])
    readme = (tmp_path / "README.md").read_text()
    scripts = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    need("iverilog", "vvp")
    run = subprocess.run(["sh", "-ec", scripts[0]], cwd=tmp_path, capture_output=True, text=True)
    assert "PASS" in run.stdout and not run.stderr
    if shutil.which("yosys"):
        first, _ = scripts[2].splitlines()
        subprocess.run(first, shell=True, cwd=tmp_path, check=True, capture_output=True)


def test_the_same_command_writes_the_same_bytes(winogen, tmp_path):
    for folder in ("one", "two"):
        winogen("generate", *ENGINE, "--quantised", "-o", tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--engine 8,4,8,1", "--engine: got '8,4,8,1'; allowed: only with --backend verilog"),
        ("--backend pascal", "backend: got 'pascal'; allowed: "
                             '"c", "opencl", "cuda", "wgsl", '
                             '"verilog"'),
        ("--backend verilog", "engine: got none; allowed: F_I,T,F_O,L, as 8,4,8,1"),
        ("--backend verilog --engine 8,4,8",
         "engine: got '8,4,8'; allowed: F_I,T,F_O,L, as 8,4,8,1"),
        ("--backend verilog --engine 0,4,8,1",
         "engine: got '0,4,8,1'; allowed: F_I,T,F_O,L with F_I an int from 1 to 4096"),
        ("--backend verilog --engine 8,3,8,1",
         "engine: got T = 3 for filters of 3 x 3; allowed: at least 4"),
        ("--backend verilog --engine 8,12,8,1",
         "engine: got ⟨8,12,8,1⟩; allowed: tiles of F(m, r) with m + r - 1 = T up to 10, or one"),
        ("--backend verilog --engine 1,17,1,1 --points "
         "0,1,-1,2,-2,3,-3,4,-4,5,-5,6,-6,7,-7,8,inf", "engine: got T = 17; allowed: at most 16"),
        ("--backend verilog --engine 8,4,8,1 --isa avx2",
         "--isa: got 'avx2'; allowed: only without --backend verilog"),
        ("--backend verilog --engine 8,4,8,1 --stride 2",
         "--stride: got '2'; allowed: only without --backend verilog"),
        ("--backend verilog --engine 8,4,8,1 --name module",
         "name: got 'module', a word of Verilog; allowed: another one, such as conv_engine"),
        ("--backend verilog --engine 8,4,8,1 --input 1,8,8,8",
         "weight: got none; allowed: both --input and --weight, or neither"),
        ("--backend verilog --engine 8,4,8,1 --input 2,8,8,8 --weight 8,8,3,3",
         "input: got 2 images; allowed: 1, as the engine computes one"),
        ("--backend verilog --engine 8,4,8,1 --input 1,8,8,8 --weight 8,4,3,3",
         "weight: got 4 channels; allowed: 8, as the input has them"),
        ("--backend verilog --engine 8,4,8,1 --input 1,8,8,8 --weight 8,8,3,1",
         "weight: got filters of 3 x 1; allowed: square ones"),
        ("--backend verilog --engine 8,4,8,1 --activation gelu",
         "activation: got 'gelu'; allowed: relu, or none"),
        ("--backend verilog --engine 8,4,8,1 --padding 1,2",
         "padding: got (1, 2); allowed: the same on all sides"),
        ("--backend verilog --engine 8,6,8,1 --input 1,512,8,8 --weight 8,512,3,3",
         "weight: got 512 channels; allowed: at most 227, which the engine's sums of 32 bits hold"),
        ("--backend verilog --engine 8,4,8,1 --points 0,1,inf",
         "points: got 3 (0, 1, inf); allowed: 4 = m + r - 1 points for F(2,3)"),
    ],
)  # fmt: skip
def test_what_it_does_not_write_is_refused_before_any_work(winogen, tmp_path, words, message):
    folder = tmp_path / "engine"
    result = winogen("generate", *words.split(), "-o", folder)
    assert result.exit_code != 0 and not folder.exists()
    assert message in " ".join(result.stderr.split())
