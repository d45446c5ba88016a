"""`winogen lab loops`: what it prints, and what it refuses."""

import json

import pytest

from winogen_lab.loops.parameters import Parameters

LAYER = (
    "lab",
    "loops",
    "--input",
    "1,8,12,12",
    "--weight",
    "16,8,3,3",
    "--padding",
    "1",
    "--isa",
    "avx2",
)


def test_a_nest_is_printed_with_its_parameters(winogen):
    result = winogen(*LAYER)
    assert result.exit_code == 0, result.output
    first, *rest = result.stdout.splitlines()
    nest = Parameters.from_text(first)
    assert nest.strategy == "filters-yxc" and any("sum[j][i] +=" in line for line in rest)
    # What is printed can be asked for.
    again = winogen(*LAYER, "--nest", first)
    assert again.stdout == result.stdout


def test_every_choice_can_be_made(winogen):
    result = winogen(
        *LAYER, "--strategy", "filters-c", "--order", "C.o,H.o,M,H.i,Y,W,X", "--blocks", "H=4,C=2",
        "--unroll", "X=2,C=2", "--registers", "4,2", "--image", "CHW", "--kernel", "YXCM",
        "--output", "WHM", "--copies", "explicit",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    nest = json.loads(result.stdout.splitlines()[0])
    assert nest == {
        "strategy": "filters-c", "image": "CHW", "kernel": "YXCM", "output": "WHM",
        "order": ["C.o", "H.o", "M", "H.i", "Y", "W", "X"], "blocks": [["C", 2], ["H", 4]],
        "copies": "explicit", "unroll": [["C", 2], ["X", 2]], "pixels": 4, "filters": 2,
    }  # fmt: skip
    assert "x_o" not in result.stdout and "for c_o in 0 .. 8 step 2" in result.stdout


def test_counts_and_c(winogen):
    lines = winogen(*LAYER, "--registers", "4,2", "--count").stdout.splitlines()
    counts = dict(line.rsplit(None, 1) for line in lines if line.startswith("loads per"))
    assert counts == {"loads per FMA": "0.750"}
    text = winogen(*LAYER, "--c", "--layout", "NHWC").stdout
    assert "void winogen_run(" in text and "Direct convolution by a generated loop nest" in text
    text = winogen(*LAYER, "--opencl", "--layout", "NHWC").stdout
    assert "Direct convolution by a loop nest" in text and "= get_global_id(0);" in text


def test_nests_of_flytes(winogen):
    layer = (*LAYER, "--layout", "NHWC", "--dtype", "flyte24", "--filter-dtype", "flyte16")
    result = winogen(*layer, "--strategy", "filters-c")
    assert result.exit_code == 0, result.stderr
    nest = {**json.loads(result.stdout.splitlines()[0]), "widened": "once"}
    result = winogen(*layer, "--nest", json.dumps(nest))
    assert "    wide = kernel[" in result.stdout and "filter[i] = wide[" in result.stdout
    assert "load_flyte16(" in winogen(*layer, "--c").stdout
    for words, said in (
        (("--opencl",), '"flyte16" with --opencl'),
        (("--dtype", "half"), "'half'"),
    ):
        result = winogen(*layer, *words)
        assert result.exit_code and said in result.stderr


def test_the_micro_kernels_of_a_target_are_compared(winogen):
    lines = winogen(*LAYER, "--strategies").stdout.splitlines()
    assert len(lines) == 1 + 11 and lines[0].split()[0] == "micro-kernel"
    lines = winogen(*LAYER[:-1], "neon", "--strategies").stdout.splitlines()
    assert len(lines) == 1 + 16


def test_rows_of_a_register_block_and_the_rule_of_loads(winogen):
    words = ("--registers", "2,1,2", "--copies", "explicit")
    nest = json.loads(winogen(*LAYER, *words).stdout.splitlines()[0])
    assert (nest["pixels"], nest["rows"], "filters" in nest) == (2, 2, False)
    nest = json.loads(winogen(*LAYER, "--strategy", "fewest-loads").stdout.splitlines()[0])
    assert nest["strategy"] == "filters-yc-row"


@pytest.mark.parametrize("words, what", [
    (("--strategy", "magic"), "strategy: got 'magic'; allowed: "),
    (("--strategy", "wmc-c"), "nest: strategy: got 'wmc-c'; allowed: dot-c, "),
    (("--order", "M,H"), "nest: order: got M, H; allowed: "),
    (("--blocks", "H"), "blocks: got 'H'; allowed: NAME=NUMBER"),
    (("--blocks", "H=99"), "nest: blocks: got 99 of H; allowed: "),
    (("--nest", "{}"), "nest: got {}; allowed: "),
    (("--registers", "99,1"), "nest: pixels: got 99 x 1 filters; allowed: "),
    (("--image", "HCC"), "nest: image: got 'HCC'; allowed: "),
])  # fmt: skip
def test_what_is_illegal_is_refused(refused, words, what):
    line = refused(*LAYER, *words)
    assert what in line
