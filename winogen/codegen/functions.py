"""Constants of the functions that smooth activations are made of, for each type of numbers.

Taylor series give exp(x) = 2^n exp(r) with |r| <= ln(2)/2, and log(1 + x) = 2 atanh(d / 2) with
d = x / (1 + x / 2) <= 2/3. The normal tail, 1 - Phi(a) for a >= 0, is exp(-a^2/2) m(a), where
(a + 4) m(a) is a polynomial in (a - 4) / (a + 4): ``scripts/fit_normal_tail.py`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial


@dataclass(frozen=True)
class TypedConstants:
    """The constants for one type of numbers, as C spells them."""

    series: tuple[str, ...]  # of exp(r), constant term first
    atanh: tuple[str, ...]  # of (2 atanh(d / 2) - d) / d^3 in d^2, constant term first
    tail: tuple[str, ...]  # of (a + 4) m(a), constant term first
    ln2: tuple[str, str]  # a part with so few bits that n times it is exact, and the remainder
    round: str  # 1.5 times 2 to the bits of the fraction: adding it rounds to an integer
    raised: str  # more by the exponent's bias and 64: the last bits are the exponent of 2^(n + 64)
    fraction: int  # bits of the fraction
    bias: int  # of the exponent
    lowest: str  # below it exp is 0
    largest: str  # beyond it the tail is 0
    head: str  # keeps so few bits that their square is exact


def _series(terms: int) -> tuple[str, ...]:
    return tuple(repr(1 / factorial(k)) for k in range(terms))


def _atanh(terms: int) -> tuple[str, ...]:
    return tuple(repr(1 / ((2 * k + 1) * 4**k)) for k in range(1, 1 + terms))


FUNCTIONS = {
    "float": TypedConstants(
        series=_series(8),
        atanh=_atanh(7),
        tail=(
            "0.7552851306", "-0.6078966591", "0.387137368", "-0.1865212814", "0.06039753309",
            "-0.007545268266", "-0.003489317276", "0.001645219297", "0.0001710546116",
            "-0.0002317986783", "-5.15565933e-5",
        ),
        ln2=("0.693359375", "-2.12194440e-4"),
        round="12582912.0",
        raised="12583103.0",
        fraction=23,
        bias=127,
        lowest="-105.0",
        largest="15.0",
        head="~0xfff",
    ),
    "double": TypedConstants(
        series=_series(14),
        atanh=_atanh(16),
        tail=(
            "0.75528513041575148", "-0.607896641971891759", "0.387137400742218879",
            "-0.186521857959694163", "0.0603965748906994641", "-0.00754018896559305902",
            "-0.00347969236224253334", "0.0016308184418903596", "0.000133344254019049116",
            "-0.000231094818319376211", "-1.90786653166135743e-6", "0.0000351441811577609727",
            "7.15005595921609866e-7", "-5.91889273176323645e-6", "-6.25132104047868019e-7",
            "1.01980485181351727e-6", "2.63682485764076251e-7", "-1.54263205367710739e-7",
            "-7.63808205349045035e-8", "1.45785933470364597e-8", "1.39240239935017101e-8",
            "7.26954547902668946e-11", "-9.65342542022850467e-10",
        ),
        ln2=("6.93147180369123816490e-01", "1.90821492927058770002e-10"),
        round="6755399441055744.0",
        raised="6755399441056831.0",
        fraction=52,
        bias=1023,
        lowest="-746.0",
        largest="39.0",
        head="~0x7ffffffLL",
    ),
}  # fmt: skip
