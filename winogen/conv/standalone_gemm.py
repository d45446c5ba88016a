"""One product of matrices as a pair of C files; for instruction sets this CPU need not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from winogen.codegen.interface import float_interface
from winogen.codegen.standalone import render_pair
from winogen.conv import arguments
from winogen.conv.clocks import unmeasured
from winogen.conv.standalone import whose
from winogen.conv.standalone_weights import carried
from winogen.kernels.gemm import GemmSpec, GemmWork, tuning
from winogen.records import Precision
from winogen.toolchain import host_target


def standalone_gemm(
    m: Any,
    n: Any,
    k: Any,
    *,
    dtype: str = "float32",
    isa: str | None = None,
    name: str | None = None,
    activation: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    threads: Any = 1,
    weights: Any = None,
    command: str = "winogen.conv.standalone_gemm",
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} for c = activation(a b + bias), c being m x n.

    ``transpose_a``, ``transpose_b``: whether a lies in memory as k x m, and b as n x k.
    ``activation``: as `gemm` takes it; the slopes of prelu come with the call. ``threads``: how
    many the work is cut for, or "caller", see `standalone`; any number may run it. ``isa``: an
    instruction set of `TARGETS`, by default this CPU's. ``weights``: b as it lies in memory, or a
    mapping with "b", "bias" and "slopes", which a third file, "<name>_weights.c", then has packed.
    ``command``: what the files say regenerates them. Blocks are chosen for the default machine:
    files are the same wherever they are made.
    Raises InvalidType and InvalidValue.

    >>> sorted(standalone_gemm(3136, 16, 64, isa="neon"))
    ['gemm_3136_16_64.c', 'gemm_3136_16_64.h']
    """
    m, n, k = (
        arguments.whole(what, size, 1, "a positive int")
        for what, size in (("m", m), ("n", n), ("k", k))
    )
    dtype = arguments.choice("dtype", dtype, arguments.DTYPES)
    target = host_target() if isa is None else arguments.target(isa)
    epilogue = arguments.activation(activation)
    cut, shared = whose(threads)
    work = GemmWork(
        GemmSpec(Precision.of(dtype), target, tuning(target, n, dtype)),
        m=m,
        n=n,
        k=k,
        a=(1, m) if transpose_a else (k, 1),
        b=(1, k) if transpose_b else (n, 1),
        c_row=n,
        epilogue=epilogue,
        packed=True,
        machine=unmeasured(target),
        threads=arguments.threads(cut),
    )
    shapes = (
        ("a", (k, m) if transpose_a else (m, k), transpose_a),
        ("b", (n, k) if transpose_b else (k, n), transpose_b),
        ("output", (m, n), False),
    )
    about = [
        f"Product of matrices, {dtype}, for {target.name}: output = a b + bias.",
        *(f"{what:<8} {rows} x {columns}{', transposed' if turned else ''}"
          for what, (rows, columns), turned in shapes),
        f"computed in register blocks of {work.spec.tuning.rows} rows by "
        f"{work.spec.tuning.vectors} vectors",
    ]  # fmt: skip
    if epilogue.means:
        about.append(f"followed by {epilogue.means}")
    spec, fields = work.spec, work.spec.values(work)
    interface = replace(float_interface(spec, fields), shared=shared)
    name = name or f"gemm_{m}_{n}_{k}"
    interface, kept = carried(name, spec, fields, interface, weights, shapes[1][1], n)
    return render_pair(name, spec, fields, interface, about, command, constants=kept)
