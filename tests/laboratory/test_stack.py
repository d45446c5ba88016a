"""Stack accesses of inner loops: what is counted in a disassembler's text, and in real kernels."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import WinogenError
from winogen_lab.bench import stack
from winogen_lab.bench.stack import Loop

X86 = """
0000000000001000 <spills>:
    1000:\tpush   %rbp
    1001:\tvmovaps 0x40(%rsp),%ymm3
    1010:\tvmovaps (%rsi),%ymm0
    1014:\tvfmadd231ps 0x20(%rsp),%ymm1,%ymm2
    101a:\tvaddps -0x20(%rsp,%rax,8),%ymm0,%ymm0
    1020:\tvmovaps %ymm0,-0x20(%rsp)
    1024:\tmov    0x8(%rsp),%rdx
    1028:\tvmovups %ymm0,(%rdi)
    1030:\tjne    1010 <spills+0x10>
    1032:\tjmp    1000 <spills>

0000000000001040 <copies>:
    1040:\tvmovaps 0x20(%rsp),%ymm0
    1048:\tjne    1040 <copies>
    104a:\tjne    1010 <spills+0x10>
"""
SSE = """
0000000000000000 <old>:
   0:\tmovaps -0x18(%rsp),%xmm0
   4:\tmulps  -0x28(%rsp),%xmm0
   8:\taddps  %xmm0,%xmm1
   c:\tmovaps %xmm1,-0x18(%rsp)
  10:\tjne    0 <old>
"""
ARM = """
0000000000000000 <other>:
       0:\tldr    q0, [sp, #16]
       4:\tfmla   v1.4s, v2.4s, v0.s[1]
       8:\tstr    q1, [sp, #32]
       c:\tldr    x1, [sp, #8]
      10:\tb.ne   0 <other>
      14:\tret
"""
ARM32 = """
00000000 <older>:
   0:\tvldr\td16, [sp, #8]
   4:\tvld1.32\t{d4-d7}, [lr]!
   8:\tvmla.f32\tq14, q8, d4[0]
   c:\tvst1.64\t{d16-d17}, [sp :64]
  10:\tldr\tr1, [sp, #8]
  14:\tbgt.n\t0 <older>
"""


@pytest.mark.parametrize(
    "text, found",
    [
        (X86, [Loop("spills", 7, 2, 2, 1)]),  # of two loops the inner; one without arithmetic
        (SSE, [Loop("old", 5, 2, 2, 1)]),
        (ARM, [Loop("other", 5, 1, 1, 1)]),
        (ARM32, [Loop("older", 6, 1, 1, 1)]),
        ("", []),
    ],
)
def test_vectors_on_the_stack_are_counted(text, found):
    assert list(stack.loops(text)) == found


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
def test_the_command(tmp_path):
    layer = {"name": "tiny", "input": [1, 16, 8, 8], "weight": [16, 16, 3, 3], "padding": 1}
    (tmp_path / "mine.json").write_text(json.dumps([layer]))
    words = ["lab", "stack", str(tmp_path / "mine.json"), "--algorithm", "mcmr", "--tile", "4,4"]
    result = CliRunner().invoke(app, [*words, "--results", str(tmp_path / "stack.json")])
    assert result.exit_code == 0, result.output
    (kernel,) = json.loads((tmp_path / "stack.json").read_text())["kernels"]
    assert kernel["kernel"] == "mcmr_f4_3_float32_nchw" and kernel["layers"] == ["tiny"]
    assert any(row["arithmetic"] for row in kernel["loops"])
    products = [row for row in kernel["loops"] if row["function"].startswith("gemm_")]
    assert all(row["loads"] + row["stores"] == 0 for row in products)
    assert kernel["kernel"] in result.output


def test_without_a_disassembler_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(WinogenError, match="no disassembler: objdump and llvm-objdump .* binutils"):
        stack.disassembled(tmp_path)


def test_wrong_options_are_refused_before_any_work():
    result = CliRunner().invoke(app, ["lab", "stack", "--only", "nothing"])
    assert result.exit_code == 2 and "only: got 'nothing'" in result.output
