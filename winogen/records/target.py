"""The instruction sets that kernels are written for: vector width, register count, flags.

A target is only data. One C source serves them all through GNU vector extensions, so a new
instruction set is a new entry in `TARGETS`; which of them the running CPU has is the business of
the toolchain's `host_target`.
"""

from __future__ import annotations

from dataclasses import dataclass

from winogen.records.precision import NUMBERS


@dataclass(frozen=True)
class Target:
    """An instruction set as the code generator sees it.

    >>> from winogen.records import TARGETS
    >>> TARGETS["avx2"].lanes("float32"), TARGETS["avx512"].lanes("float64")
    (8, 8)
    """

    name: str  # what WINOGEN_ISA and `--isa` call it
    vector_bytes: int  # width of one vector register
    registers: int  # vector registers the instruction set names
    flags: tuple[str, ...]  # what the compiler needs to emit it
    broadcasts: bool = False  # arithmetic takes one number from memory into all lanes
    by_lane: bool = False  # arithmetic takes one lane of a register for all lanes
    masks: bool = False  # loads and stores of some lanes, non-temporal stores of a whole line
    flushes: bool = True  # can be told to take denormals for zeros
    # Whose intrinsics widen float16 and shuffle bytes: the prefix of x86's names, "neon", or none.
    intrinsics: str = ""
    core: str = (
        ""  # the micro-architecture whose measured sizes of blocks it takes, if one is known
    )

    def lanes(self, dtype: str) -> int:
        """Return how many "float32" or "float64" numbers one vector holds."""
        return self.vector_bytes // NUMBERS[dtype].itemsize


# Widest first within a family: `host_target` takes the first that the CPU has.
TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "avx512",
            64,
            32,
            (
                "-mavx512f",
                "-mavx512vl",
                "-mavx512bw",
                "-mavx512dq",
                "-mfma",
                # Both compilers prefer 256 bits by default, for fear of a clock drop that CPUs
                # since Ice Lake hardly have.
                "-mprefer-vector-width=512",
            ),
            broadcasts=True,
            masks=True,
            intrinsics="_mm512",
        ),
        Target("avx2", 32, 16, ("-mavx2", "-mfma", "-mf16c"), intrinsics="_mm256"),
        Target("sse2", 16, 16, ("-msse2",)),
        Target("neon", 16, 32, (), by_lane=True, intrinsics="neon"),
        Target("generic", 16, 16, ()),
    )
}
