"""Instructions that add products of integers to 32-bit sums, of every target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from winogen.records import Target


@dataclass(frozen=True)
class Dot:
    """An instruction that adds the products of two words to a sum."""

    name: str
    target: str
    extensions: tuple[str, ...]  # that the target needs for it
    together: int  # numbers in a word: 4 bytes, 2 integers of 16 bits, or 1 of them
    signed: bool  # whether both operands are; else inputs are unsigned, filters signed
    what: str
    instructions: int = 1  # that multiply a vector of words, and what brings it into that form
    adds: int = 0  # additions besides: many CPUs do these elsewhere
    # Vectors of words that it multiplies in the time of a multiply-add of as many floats. By the
    # Intel 64 and IA-32 Architectures Optimization Reference Manual, a product of two tiles of AMX,
    # 16 by 16 such vectors, takes 16 cycles, and there are two multiply-adds of floats in a cycle.
    # One of a vector of sums, of Arm, takes as long as theirs: two words each.
    at_once: int = 1
    # Words of a pixel, and of a filter, that it multiplies at once: so many of a filter lie side by
    # side, where filters fill no lanes.
    deep: int = 1

    @property
    def rate(self) -> float:
        """Products in the time of a multiply-add of floats, of each of its lanes."""
        return self.together * self.at_once / self.instructions


DOTS = (
    Dot("tdpbusd", "avx512", ("amx", "vnni"), 4, False, "tdpbusd (AMX-INT8)", at_once=8),
    Dot("vpdpbusd", "avx512", ("vnni",), 4, False, "vpdpbusd (AVX512-VNNI)"),
    Dot("vpdpbusd", "avx2", ("avxvnni",), 4, False, "vpdpbusd (AVX-VNNI)"),
    Dot("smmla", "neon", ("i8mm",), 4, True, "smmla", at_once=2, deep=2),
    Dot("sdot", "neon", ("dotprod",), 4, True, "sdot"),
    Dot("pmaddwd", "avx512", (), 2, True, "vpmaddwd", adds=1),
    Dot("pmaddwd", "avx2", (), 2, True, "vpmaddwd", adds=1),
    Dot("pmaddwd", "sse2", (), 2, True, "pmaddwd", adds=1),
    Dot("smlal", "neon", (), 2, True, "smlal", 6),
    Dot("dot_i16x8", "wasm", (), 2, True, "i32x4.dot_i16x8_s", adds=1),
    Dot("plain", "generic", (), 2, True, "plain C", 12),
)

# Of depthwise layers, where a lane has numbers of one channel: one of 16 bits at a time.
SINGLE_DOTS = (
    Dot("vpdpwssd", "avx512", ("vnni",), 1, True, "vpdpwssd (AVX512-VNNI)"),
    Dot("vpdpwssd", "avx2", ("avxvnni",), 1, True, "vpdpwssd (AVX-VNNI)"),
    *(replace(dot, together=1) for dot in DOTS if dot.together == 2),
)


def of_variant(variant: str) -> Dot | None:
    """Return the instruction that a variant is named after; None of variants of other numbers.

    >>> of_variant("im2col_vpdpbusd").rate, of_variant("depthwise_pmaddwd").rate
    (4.0, 1.0)
    """
    algorithm, _, name = variant.partition("_")
    dots = SINGLE_DOTS if algorithm == "depthwise" else DOTS
    return next((dot for dot in dots if dot.name == name), None)


def dots_of(target: Target, dots: tuple[Dot, ...] = DOTS) -> tuple[Dot, ...]:
    """Return the instructions that a target with its extensions has, the best first.

    >>> from winogen.records import TARGETS
    >>> [dot.what for dot in dots_of(TARGETS["avx512"].adjusted("+vnni"))]
    ['vpdpbusd (AVX512-VNNI)', 'vpmaddwd']
    """
    return tuple(
        dot
        for dot in dots
        if dot.target in (target.name, target.includes)
        and target.extensions.issuperset(dot.extensions)
    )
