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


DOTS = (
    Dot("tdpbusd", "avx512", ("amx", "vnni"), 4, False, "tdpbusd (AMX-INT8)"),
    Dot("vpdpbusd", "avx512", ("vnni",), 4, False, "vpdpbusd (AVX512-VNNI)"),
    Dot("vpdpbusd", "avx2", ("avxvnni",), 4, False, "vpdpbusd (AVX-VNNI)"),
    Dot("sdot", "neon", ("dotprod",), 4, True, "sdot"),
    Dot("pmaddwd", "avx512", (), 2, True, "vpmaddwd"),
    Dot("pmaddwd", "avx2", (), 2, True, "vpmaddwd"),
    Dot("pmaddwd", "sse2", (), 2, True, "pmaddwd"),
    Dot("smlal", "neon", (), 2, True, "smlal"),
    Dot("plain", "generic", (), 2, True, "plain C"),
)

# Of depthwise layers, where a lane has numbers of one channel: one of 16 bits at a time.
SINGLE_DOTS = (
    Dot("vpdpwssd", "avx512", ("vnni",), 1, True, "vpdpwssd (AVX512-VNNI)"),
    Dot("vpdpwssd", "avx2", ("avxvnni",), 1, True, "vpdpwssd (AVX-VNNI)"),
    *(replace(dot, together=1) for dot in DOTS if dot.together == 2),
)


# Of layers with worthwhile tiles: words of a tap, and of a sum, below which vpdpbusd is faster.
LEAST_WORDS, LEAST_TERMS = 4, 6


def dot_of(target: Target, dots: tuple[Dot, ...] = DOTS) -> Dot:
    """Return the best instruction that a target with its extensions has.

    >>> from winogen.records import TARGETS
    >>> avx512 = TARGETS["avx512"]
    >>> dot_of(avx512).what, dot_of(avx512.adjusted("+vnni")).what
    ('vpmaddwd', 'vpdpbusd (AVX512-VNNI)')
    """
    return next(
        dot
        for dot in dots
        if dot.target in (target.name, target.includes)
        and target.extensions.issuperset(dot.extensions)
    )


def worth_tiles(words: int, taps: int) -> bool:
    """Return whether AMX is faster for sums of so many taps with so many words of four bytes.

    >>> worth_tiles(16, 9), worth_tiles(1, 49), worth_tiles(16, 1), worth_tiles(4, 1)
    (True, False, True, False)
    """
    return words >= LEAST_WORDS and words * taps >= LEAST_TERMS
