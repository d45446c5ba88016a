"""The C of products of matrices: no warnings, nothing undefined, and the prefetches asked for."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from codegen.test_sanitizers import (
    EMITTABLE,
    OPENMP,
    VECTORS,
    WARNINGS,
    compile_c,
    initialiser,
    small,
)
from kernels.turns import first

from winogen.codegen.render import cdef, render
from winogen.kernels.gemm import GemmSpec, GemmWork, tuning
from winogen.records import Epilogue, Machine, Precision
from winogen.records.tuning import STREAMS
from winogen.toolchain import find_compiler, host_targets

DRIVER = Path(__file__).with_name("sanitized_gemm.c")
EPILOGUES = (Epilogue(), Epilogue("relu"), Epilogue("prelu"))


def spec_of(dtype, target, columns=64, **sizes):
    block = replace(tuning(target, columns, dtype), **sizes)
    return GemmSpec(Precision.of(dtype), target, block)


@pytest.mark.parametrize("target", EMITTABLE, ids=lambda target: target.name)
def test_no_product_makes_a_warning(target, tmp_path):
    names = []
    for dtype, columns, streams in product(("float32", "float64"), (16, 512), (0, 7)):
        names.append(f"{dtype}_{columns}_{streams}.c")
        spec = spec_of(dtype, target, columns, prefetch_streams=streams)
        (tmp_path / names[-1]).write_text(render(spec))
    compile_c(tmp_path, *WARNINGS, *OPENMP, "-fsyntax-only", *target.flags, *names)


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
    (tmp_path / "probe.c").write_text("int main(void) { return 0; }\n")
    probe = (*find_compiler().command, "-fsanitize=address,undefined", "probe.c", "-o", "probe")
    if subprocess.run(probe, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("this compiler has no AddressSanitizer or UBSan")
    dtype, target = VECTORS[lanes][0]
    spec = spec_of(dtype, target, prefetch_streams=7, depth=2 * lanes)
    spec = replace(spec, tuning=small(spec.tuning))
    cut = list(works(spec))
    calls = [(spec.values(work, flush_denormals=bool(i % 2)), work) for i, work in enumerate(cut)]
    for name in ("k_blocks", "n_blocks", "shares"):
        assert max(values[name] for values, _ in calls) > 1
    assert {values["m_part"] > values["m_block"] for values, _ in calls} == {False, True}
    lines = [
        f"typedef {spec.precision.real.c} real;",
        cdef(spec),
        "static const winogen_conv products[] = {",
        *(f"    {initialiser(values)}," for values, _ in calls),
        "};",
        f"static const int packed[] = {{ {', '.join(str(int(w.packed)) for _, w in calls)} }};",
        f"static const int threads[] = {{ {', '.join(str(w.threads) for _, w in calls)} }};",
    ]
    (tmp_path / "products.h").write_text("\n".join([*lines, ""]))
    (tmp_path / "kernel.c").write_text(render(spec))
    (tmp_path / "driver.c").write_text(DRIVER.read_text())
    sanitizers = (*OPENMP, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    compile_c(tmp_path, "-O0", "-g1", *sanitizers, *WARNINGS, *target.flags, "-c", "kernel.c")
    compile_c(tmp_path, "-O1", *WARNINGS, "-c", "driver.c")
    compile_c(tmp_path, *sanitizers, "kernel.o", "driver.o", "-o", "driver", "-lm")
    # The OpenMP runtime keeps what it allocates for its threads, which is no leak of ours.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "OMP_WAIT_POLICY": "passive"}
    run = subprocess.run(
        ["./driver"], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, f"{run.stdout[-2000:]}{run.stderr[-4000:]}"
    assert f"{len(calls)} products are right" in run.stdout


PREFETCH = re.compile(r"\t(?:prefetch\w+|prfm)\b")


def prefetches_in(spec, folder):
    """How many prefetch instructions the compiler makes of a kernel."""
    (folder / "kernel.c").write_text(render(spec, activations=()))
    words = ("-Wno-unknown-pragmas", "-O2", "-c", "kernel.c")
    compile_c(folder, *words, *spec.target.flags)
    run = subprocess.run(
        ["objdump", "-d", "kernel.o"], cwd=folder, capture_output=True, text=True, check=True
    )
    return PREFETCH.findall(run.stdout)


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump reads object files")
@pytest.mark.parametrize("stream", first(2, zip(("none", "both", "A", "B", "output"))))
def test_every_accepted_access_has_one_prefetch(stream, tmp_path):
    """Of a: the load where it is packed; of b: the vectors of a step; of outputs: all sums."""
    rows, vectors = 3, 2
    blocks = list(product(range(1, rows + 1), range(1, vectors + 1)))
    of_b, of_outputs = sum(v for _, v in blocks), sum(r * v for r, v in blocks)
    expected = {"none": 0, "A": 1, "B": of_b, "both": 1 + of_b, "output": of_outputs}[stream]
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
        assert len(made) == expected
        if target.name in ("avx512", "avx2", "sse2"):
            wanted = output_level if stream == "output" else level
            assert set(made) <= {f"\tprefetcht{wanted - 1}", "\tprefetchw"}
