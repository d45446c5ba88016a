"""The C of products of matrices: no warnings, nothing undefined, and the prefetches asked for."""

import re
import shutil
import subprocess
from dataclasses import replace
from itertools import product

import pytest
from codegen.sanitized import EMITTABLE, VECTORS, calls_of, check, compile_c, no_warning
from codegen.test_sanitizers import small
from kernels.turns import first

from winogen.codegen.render import render
from winogen.kernels.gemm import GemmSpec, GemmWork, tuning
from winogen.records import Epilogue, Machine, Precision
from winogen.records.tuning import STREAMS
from winogen.toolchain import host_targets

EPILOGUES = (Epilogue(), Epilogue("relu"), Epilogue("prelu"))


def spec_of(dtype, target, columns=64, **sizes):
    block = replace(tuning(target, columns, dtype), **sizes)
    return GemmSpec(Precision.of(dtype), target, block)


@pytest.mark.parametrize("target", EMITTABLE, ids=lambda target: target.name)
def test_no_product_makes_a_warning(target, tmp_path):
    texts = {}
    for dtype, columns, streams in product(("float32", "float64"), (16, 512), (0, 7)):
        spec = spec_of(dtype, target, columns, prefetch_streams=streams)
        texts[f"{dtype}_{columns}_{streams}.c"] = render(spec)
    no_warning(tmp_path, texts, target)


def works(spec):
    """Products of all kinds of rests, placements and cuts."""
    lanes = spec.precision.lanes(spec.target.vector_bytes)
    sizes = [(1, 1, 1), (7, 3 * lanes, 5), (9, lanes, 3 * lanes), (13, 2 * lanes + 1, 40)]
    sizes += [(4, 70, 17), (30, 1, 33), (2, 5 * lanes, 2 * lanes)]
    machines = (Machine(), Machine(l2_bytes=1 << 10, l3_bytes=1 << 11))
    for index, ((m, n, k), turned) in enumerate(product(sizes, range(4))):
        yield GemmWork(
            spec,
            m,
            n,
            k,
            a=(1, m + index % 3) if turned & 1 else (k + index % 2, 1),
            b=(1, k + index % 2) if turned & 2 else (n + index % 3, 1),
            c_row=n if index % 4 == 1 else n + index % 3,
            epilogue=EPILOGUES[index % 3],
            packed=bool(index % 5 % 2),
            machine=machines[index % 2],
            threads=1 + index % 3,
        )


@pytest.mark.parametrize("lanes", first(2, zip(VECTORS)))
def test_no_product_leaves_its_arrays_or_the_language(lanes, tmp_path):
    dtype, target = VECTORS[lanes][0]
    spec = spec_of(dtype, target, prefetch_streams=7, depth=2 * lanes)
    spec = replace(spec, tuning=small(spec.tuning))
    cut = list(works(spec))
    calls = calls_of(spec, cut)
    for name in ("k_blocks", "n_blocks", "shares"):
        assert max(call.struct[name] for call in calls) > 1
    assert {call.struct["m_part"] > call.struct["m_block"] for call in calls} == {False, True}
    known = [
        f"typedef {spec.precision.real.c} real;",
        f"static const int packed[] = {{ {', '.join(str(int(work.packed)) for work in cut)} }};",
    ]
    check(tmp_path, "gemm", spec, calls, known)


PREFETCH = re.compile(r"\t(?:prefetch\w+|prfm)\b")


def prefetches_in(spec, folder):
    """How many prefetch instructions the compiler makes of a kernel."""
    (folder / "kernel.c").write_text(render(spec))
    words = ("-O2", "-c", "kernel.c")
    compile_c(folder, *words, *spec.target.flags)
    run = subprocess.run(
        ["objdump", "-d", "kernel.o"], cwd=folder, capture_output=True, text=True, check=True
    )
    return PREFETCH.findall(run.stdout)


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump reads object files")
@pytest.mark.parametrize("stream", first(2, zip(("none", "both", "A", "B", "output"))))
def test_every_accepted_access_has_one_prefetch(stream, tmp_path):
    """Of a: the load where it is packed; of b: the vectors of a step; of outputs: all sums.

    The compiler may write a step several times, where it unrolls the loop.
    """
    rows, vectors = 3, 2
    blocks = list(product(range(1, rows + 1), range(1, vectors + 1)))
    of_b, of_outputs = sum(v for _, v in blocks), sum(r * v for r, v in blocks)
    once = {"none": 0, "A": 1, "B": 0, "both": 1, "output": of_outputs}[stream]
    each_step = of_b if stream in ("B", "both") else 0
    streams = {"rows": rows, "vectors": vectors, "prefetch_streams": STREAMS[stream]}
    target = host_targets()[0]
    for level, output_level, distance in ((1, 2, 0), (2, 1, 4096)):
        spec = spec_of(
            "float32",
            target,
            **streams,
            prefetch=distance,
            prefetch_level=level,
            prefetch_output=distance,
            output_level=output_level,
        )
        made = prefetches_in(spec, tmp_path)
        in_steps = len(made) - once
        assert in_steps % of_b == 0 and in_steps >= each_step if each_step else in_steps == 0
        if target.family == "x86":
            wanted = output_level if stream == "output" else level
            assert set(made) <= {f"\tprefetcht{wanted - 1}", "\tprefetchw"}
