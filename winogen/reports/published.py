"""The published point sets and errors that winogen's own are compared with.

Barabasz, Anderson, Soodhalter, Gregg, Error Analysis and Improving the Accuracy of Winograd
Convolution for Deep Neural Networks, ACM TOMS 46 (2020), arXiv 1803.10986: mean 2D error of
F(m x m, 3 x 3) in float32 with Huffman order, 5000 trials. To measure them all again:
``python -m winogen.reports.published``.
"""

from __future__ import annotations

from dataclasses import dataclass

DIRECT = {1: 1.75e-8, 2: 4.63e-8}  # dimensions -> error of direct convolution, 3 taps


@dataclass(frozen=True)
class Published:
    """Points of F(m, 3) and the error that was printed for them."""

    m: int
    points: str
    error: float


_EIGHT = "0, -1, 1, 1/2, -1/2, 2, -2"
_TEN = f"{_EIGHT}, -1/4, 4"

PUBLISHED = {
    entry.m: entry
    for entry in (
        Published(2, "0, -1, 1, inf", 7.65e-8),
        Published(3, "0, -1, 1, 1/2, inf", 2.35e-7),
        Published(4, "0, -1, 1, 1/2, -2, inf", 3.29e-7),
        Published(5, "0, -1, 1, 1/2, -2, -1/2, inf", 6.81e-7),
        Published(6, f"{_EIGHT}, inf", 8.79e-7),
        Published(7, f"{_EIGHT}, -1/4, inf", 3.71e-6),
        Published(8, f"{_TEN}, inf", 7.35e-6),
        Published(9, f"{_EIGHT}, -1/4, 3/4, -4/3, inf", 2.20e-5),
        Published(10, f"{_TEN}, 3/4, -4/3, inf", 3.22e-5),
        Published(11, f"{_TEN}, 3/4, -4/3, 1/4, inf", 1.09e-4),
        Published(12, f"{_TEN}, 1/4, -3/4, 4/3, -4, inf", 1.99e-4),
        Published(13, f"{_TEN}, 1/4, -3/4, 4/3, 3/4, -4/3, inf", 5.54e-4),
        Published(14, f"{_TEN}, 1/4, -3/4, 4/3, -4, 3/4, -4/3, inf", 8.80e-4),
        Published(15, f"{_TEN}, 1/4, -3/4, 4/3, -4, 2/3, -3/2, 3/2, inf", 1.07e-2),
        Published(16, f"{_TEN}, 1/4, -3/4, 4/3, -4, 2/3, -3/2, -2/3, 3/2, inf", 1.93e-2),
    )
}


def main() -> None:
    """Print the protocol check: published beside measured, for direct and F(2..16, 3)."""
    from winogen.algebra import cook_toom
    from winogen.numerics.protocol import measure
    from winogen.progress import counting
    from winogen.rounding.tiles import Direct

    total = len(DIRECT) + len(PUBLISHED)
    rows = [f"{'':<12}{'published':>11}{'measured':>11}{'ratio':>8}"]

    def add(name: str, error: float, mean: float) -> None:
        rows.append(f"{name:<12}{error:>11.2e}{mean:>11.2e}{mean / error:>8.3f}")

    with counting("measuring") as step:
        for dims, error in DIRECT.items():
            name = f"direct {dims}D"
            step(len(rows) - 1, total, name)
            add(name, error, measure(Direct(1, 3), dims=dims, trials=200_000).mean)
        for m, entry in PUBLISHED.items():
            name = f"F({m},3)"
            step(len(rows) - 1, total, name)
            add(name, entry.error, measure(cook_toom(m, 3, entry.points)).mean)
    print("\n".join(rows))


if __name__ == "__main__":
    main()
