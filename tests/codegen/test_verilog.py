"""Verilog of transforms: simulated beside Python's integers, read by a lint, tight to the bit."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from codegen.verilog_tools import design, linted, need, simulated, transform, written

from winogen.algebra import cook_toom, winograd
from winogen.codegen.verilog import module
from winogen.codegen.verilog.bench import expected, tiles
from winogen.codegen.verilog.files import ModuleOptions, rational, transforms
from winogen.codegen.verilog.handshake import handshake_claim
from winogen.codegen.verilog.handshake import prove as prove_handshake
from winogen.codegen.verilog.netlist import claims
from winogen.codegen.verilog.netlist import prove as prove_netlist
from winogen.errors import CompilerNotFound, InvalidValue, VerificationError
from winogen.fixed import integral, of_adders
from winogen.program.widths import signed
from winogen.toolchain.yosys import netlist, prove

FORMS = {  # axes, stages of a pass, folded, bits that are rounded
    "combinational": (1, 0, False, 0),
    "staged": (1, 2, False, 0),
    "rounded": (1, 1, False, 3),
    "nested": (2, 0, False, 0),
    "nested and staged": (2, 1, False, 0),
    "folded": (2, 0, True, 0),
    "folded, staged and rounded": (2, 2, True, 2),
}
KINDS = ("input", "filter", "output")
GAUSSIAN = "x,x-1,x+1,x^2+1,inf"


def made(name, kind, form):
    axes, stages, folded, dropped = FORMS[form]
    return design(transform(name, kind, axes, dropped), stages=stages, folded=folded)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [False, True], ids=["", "stream"])
def test_modules_compute_what_python_computes(tmp_path, kind, form, stream):
    need("iverilog")
    if stream and FORMS[form][2]:
        pytest.skip("a folded transform has a handshake of its own")
    name = written(tmp_path, made("f2_3", kind, form), stream)
    assert simulated(tmp_path, name, "-g2005").startswith("PASS")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["f4_3_gaussian"])
def test_a_lint_has_nothing_to_say(tmp_path, name, kind, form):
    need("verilator")
    one = made(name, kind, form)
    top = written(tmp_path, one, stream=not FORMS[form][2], count=1)
    for options in ((), ("-DFORMAL",)):
        assert linted(tmp_path, top, *options) == ""
    for path in tmp_path.glob("*.v"):
        for line in path.read_text().splitlines():
            assert len(line) <= 100 and line == line.rstrip(), (path, line)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropped", [0, 3])
def test_some_input_reaches_each_end_of_each_port(kind, axes, dropped):
    one = design(transform("f4_3_gaussian", kind, axes, dropped))
    results = [expected(one.transform, tile) for tile in tiles(one.transform, 0)]
    flat = [[value for row in result for value in row] for result in results]
    for port, values in zip(one.outputs, zip(*flat)):
        assert (min(values), max(values)) == tuple(port.range), port
        assert port.bits == port.range.bits


def test_ports_of_a_folded_transform_are_the_widest_of_its_rows():
    nested, folded = (
        design(transform("f4_3_classic", "output", 2), folded=folded) for folded in (False, True)
    )
    count = len(folded.outputs)
    for j, port in enumerate(folded.outputs):
        column = nested.outputs[j::count]
        assert port.range.low == min(one.range.low for one in column)
        assert port.range.high == max(one.range.high for one in column)


@pytest.mark.parametrize("axes", [1, 2])
def test_no_rounded_result_is_further_than_the_bound(axes):
    """... and some come near it: halfway, at least."""
    algorithm = cook_toom(2, 3, "0,sqrt(2)/2,-sqrt(2)/2,inf")
    found = transforms(algorithm, "t", ModuleOptions(axes=axes, fraction=3))
    for kind in ("input", "filter"):
        transform, rounding = found[kind]
        exact = [
            [rational(c) if same_sign(row, ours) else -rational(c) for c in row]
            for row, ours in zip(algorithm.matrices[kind], transform.matrix)
        ]
        worst = max(
            abs(value - made)
            for tile in tiles(transform, 300)
            for row, results in zip(along(exact, tile, axes), expected(transform, tile))
            for value, made in zip(row, results)
        )
        assert rounding.error / 2 < worst <= rounding.error


def same_sign(row, rounded):
    """Whether a row that may have been negated was not."""
    return sum(rational(c) * k for c, k in zip(row, rounded)) > 0


def along(matrix, tile, axes):
    """The exact transform of a tile."""

    def one(line):
        return [sum(c * x for c, x in zip(row, line)) for row in matrix]

    if axes == 1:
        return [one(tile[0])]
    return [one(row) for row in zip(*(one(column) for column in zip(*tile)))]


def test_a_simulation_notices_what_is_wrong(tmp_path):
    """One minus for a plus, and one bit too few of a sum."""
    need("iverilog")
    name = written(tmp_path, made("f4_3_classic", "input", "combinational"))
    path = tmp_path / f"{name}.v"
    text = path.read_text()
    plus = re.search(r"assign \w+ = [^;]* [+] ", text)[0]
    bits = re.search(r"wire signed \[(\d+):0\] t", text)
    fewer = bits[0].replace(bits[1], str(int(bits[1]) - 1))
    for old, new in ((plus, plus.replace("+", "-")), (bits[0], fewer)):
        path.write_text(text.replace(old, new, 1))
        assert "FAIL" in simulated(tmp_path, name, "-g2005", quietly=False)


def test_signs_that_would_cost_a_negation_are_moved_into_the_output_transform():
    """Rows of B^T as `of_adders` has them: within two levels a row without them is negated."""
    algorithm = winograd(4, 3, GAUSSIAN)
    for options, exact in (
        (ModuleOptions(), integral(algorithm)),
        (ModuleOptions(fraction=4), None),
    ):
        found = {kind: one for kind, (one, _) in transforms(algorithm, "t", options).items()}
        if exact:
            assert {k: one.matrix for k, one in found.items()} == of_adders(exact).matrices
        for j in range(algorithm.n):
            signs = [
                same_sign(algorithm.matrices[kind][j], found[kind].matrix[j])
                for kind in ("input", "filter")
            ]
            column = [row[j] for row in found["output"].matrix]
            given = [row[j] for row in algorithm.matrices["output"]]
            assert same_sign(given, column) == (signs[0] == signs[1])


def test_wrong_arguments_are_named():
    program = transform("f2_3", "input").program
    with pytest.raises(InvalidValue, match="kind: got 'output_'; allowed: input, filter, output"):
        module(program, "m", "output_", signed(8))
    with pytest.raises(InvalidValue, match="inputs: got 3 ranges; allowed: one, or 4"):
        module(program, "m", "input", [signed(8)] * 3)
    with pytest.raises(InvalidValue, match="folded: got it for one axis"):
        design(transform("f2_3", "input"), folded=True)
    assert module(program, "m", "input", signed(8)).text == made_twice(program)


def made_twice(program):
    return module(program, "m", "input", [signed(8)] * 4).text


PROVEN = {  # those of `FORMS`, which tiles, and what is found of the handshake
    "staged": ("f4_3_classic", "6 states, a tile in 1 cycle"),
    "rounded": ("f4_3_gaussian", "3 states, a tile in 1 cycle"),
    "nested and staged": ("f2_3", "6 states, a tile in 1 cycle"),
    "folded": ("f2_3", "64 states, a tile in 4 cycles"),
    "folded, staged and rounded": ("f4_3_gaussian", "624 states, a tile in 7 cycles"),
}


@pytest.mark.parametrize("form", PROVEN)
def test_every_form_is_proven(form):
    need("yosys")
    name, found = PROVEN[form]
    lines = list(prove(made(name, "filter", form)))
    assert lines[-1].endswith(
        f"its handshake, however both sides hesitate: {found} without hesitation"
    )
    assert all("for all inputs" in line for line in lines[:-1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["f1_1", "f2_1", "f1_3", "f3_2", "f4_3_gaussian"])
def test_tiles_of_every_size_keep_the_handshake(name, kind):
    """With one column or many, and more or fewer rows of the result than columns of the tile."""
    need("yosys")
    one = design(transform(name, kind, 2), folded=True)
    beats = max(len(one.transform.inputs), len(one.transform.half))
    assert f" states, a tile in {beats} cycle" in list(prove(one))[-1]


def test_a_proof_that_has_an_end_says_where(monkeypatch):
    """The first cycles after a reset are all there."""
    need("yosys")
    monkeypatch.setattr("winogen.codegen.verilog.handshake.MOST", 40)
    last = list(prove(made("f2_3", "filter", "folded")))[-1]
    assert re.search(r"the \d+ states of the first \d+ cycles; there are more$", last)


WRONG = [  # what is changed in F(4, 3), and what the proof says
    (r"(assign v1 = t\d+) [+] ", r"\1 - ", "output v1 has "),
    (r"wire signed \[8:0\] (t\d+)", r"wire signed [7:0] \1", "a vector is no value"),
    (r"output wire signed \[11:0\] v0", r"output wire signed [12:0] v0", "v0 has 13 bits, not 12"),
    (r"(assign v0 = .*;)", r"assign v0 = d0 * d1;", "a cell .mul, which no transform has"),
    (r"(assign v0 = .*;)", r"assign v0 = d0 ^ d1;", "a cell .xor, which no transform has"),
    (r"(assign v0 = .*;)", r"assign v0 = 12'd7;", "is no value"),
]


@pytest.mark.parametrize("old, new, said", WRONG)
def test_a_wrong_module_is_not_proven(tmp_path, old, new, said):
    need("yosys")
    (claim,) = claims(made("f4_3_classic", "input", "combinational"))
    text, count = re.subn(old, new, claim.module.text, count=1)
    assert count == 1
    document = netlist([replace(claim.module, text=text)], claim.module.name, tmp_path)
    with pytest.raises(VerificationError, match=said):
        prove_netlist(claim, document)


def test_stages_that_do_not_wait_for_each_other_are_not_proven(tmp_path):
    need("yosys")
    (claim,) = claims(made("f4_3_classic", "input", "staged"))
    for old, new, said in (
        ("if (enable)", "if (d0[0])", "a register without enable"),
        ("posedge", "negedge", "a register without clk"),
        ("assign v0 = v0_s2", "assign v0 = v0_next", "v0 is 1 cycles late, not 2"),
    ):
        changed = replace(claim.module, text=claim.module.text.replace(old, new))
        document = netlist([changed], claim.module.name, tmp_path)
        with pytest.raises(VerificationError, match=said):
            prove_netlist(claim, document)


TURN = "of beat . does not belong to the tile whose turn it is"
OFFERED = "assign out_valid = full[emptied];"
READY = OFFERED + "\n    assign row_ready = out_ready;"
BOTH = "full[0] && full[1]"
NEXT = "column_number <= 2'd{};\n            row"  # after a reset
WRONG_HANDSHAKES = {  # of which form, what is changed in it, and what the proof says
    "never waits": ("folded", "= !full[filled];", "= 1'b1;", TURN),
    "the other buffer": ("folded", "emptied ? second0", "!emptied ? second0", TURN),
    "another row": ("folded", "{first1[", "{first0[", TURN),
    "bits in another order": ("folded", "= row1_1;", "= {row1_1[0], row1_1[9:1]};", TURN),
    "too few bits": ("folded", "= row1_1;", "= {row1_1[8], row1_1[8:0]};", TURN),
    "numbers decide": ("folded", "wire fill =", "wire fill = g0[0] &&", "in_ready depends on num"),
    "a beat that goes": (
        "folded",
        OFFERED,
        "reg odd; always @(posedge clk) odd <= reset ? 1'b0 : !odd; "
        "assign out_valid = odd && full[emptied];",
        "a beat that nobody took is gone",
    ),
    "waits for the taker": (
        "folded", OFFERED, OFFERED.replace(";", " && out_ready;"), "out_valid depends on out_ready"
    ),
    "a reset to another column": ("folded", NEXT.format(0), NEXT.format(1), TURN),
    "a reset that leaves a column": (
        "folded", "if (reset) begin", "if (reset && !full[0]) begin", "a reset leaves|does not lead"
    ),
    "the last tile stays": (
        "folded",
        READY,
        f"assign out_valid = {BOTH};\n    assign row_ready = {BOTH} && out_ready;",
        "a tile stays inside",
    ),
    "stages that go on": ("staged", ".enable(in_ready)", ".enable(1'b1)", TURN),
    "another edge": ("staged", "posedge clk", "negedge clk", "another edge"),
    "another clock": ("staged", ".clk(clk)", ".clk(in_valid)", "another edge"),
    "a stage too few": ("staged", "valid[1];", "valid[0];", TURN),
    "never ready": ("staged", "out_ready || !out_valid", "1'b0", "0 tiles come out"),
    "a tile twice": ("staged", "{valid[0:0], in_valid}", "{valid[0:0], 1'b1}", TURN),
    "gates": ("staged", "assign in_ready = ", "assign in_ready = ^g0 && ", "a cell .reduce_xor"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_HANDSHAKES)
def test_a_wrong_handshake_is_not_proven(tmp_path, case):
    need("yosys")
    form, old, new, said = WRONG_HANDSHAKES[case]
    claim = handshake_claim(made("f2_3", "filter", form))
    *inside, top = claim.parts
    assert old in top.text
    parts = [*inside, replace(top, text=top.text.replace(old, new))]
    document = netlist(parts, top.name, tmp_path, flat=False)
    with pytest.raises(VerificationError, match=said):
        prove_handshake(claim, document)


def test_proofs_without_tools_say_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompilerNotFound, match="prove: got no yosys.*apt-get install"):
        list(prove(made("f2_3", "filter", "combinational")))


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["combinational", "staged", "folded"])
def test_cocotb_agrees(tmp_path, form):
    need("iverilog")
    pytest.importorskip("cocotb_tools", reason="no cocotb: pip install '.[hardware-test]'")
    name = written(tmp_path, made("f2_3", "filter", form))
    command = [sys.executable, f"{name}_cocotb.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "PASS=1 FAIL=0" in run.stdout + run.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["combinational", "nested and staged", "folded"])
def test_verilator_agrees(tmp_path, form):
    need("verilator")
    name = written(tmp_path, made("f2_3", "filter", form))
    command = ["verilator", "--binary", "--timing", "-Wno-lint", "-Wno-fatal", "-y", ".", "-o", "s"]
    command += ["--top", f"{name}_tb", f"{name}_tb.v"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    run = subprocess.run(["obj_dir/s"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("PASS")
