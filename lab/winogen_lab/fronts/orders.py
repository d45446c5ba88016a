"""What the order of additions is worth, in the compiled C and in its numpy twin.

``python -m winogen_lab.fronts.orders`` measures the orders in which transforms add, and the
lengths of the chains in which channels do.
"""

from __future__ import annotations

from typing import Any

from winogen.codegen import transforms
from winogen.kernels import summation
from winogen.numerics.protocol import PRACTICAL, measure
from winogen.program.summation import NAMES
from winogen.progress import counting

_SIZES = (4, 6)  # m of F(m, 3)
_TRIALS = {"one": 4000, "many": 300}
_CHANNELS = 512


def orders() -> list[list[str]]:
    """Rows of (F, order, instructions of input + output, error in C and numpy, one channel and 64).

    One channel is the protocol of the literature in the bare transforms, 64 are a kernel of
    ``conv2d`` with fused multiply-adds.
    """
    from winogen.toolchain import host_target

    rows = []
    summed: dict[str, Any] = dict(summation("mcmr", host_target(), PRACTICAL["channels"]))
    for m in _SIZES:
        for order in NAMES:
            made = transforms.load(m, 3, order=order)
            one: dict[str, Any] = {"order": order, "trials": _TRIALS["one"]}
            many = {**PRACTICAL, "order": order, "trials": _TRIALS["many"]}
            found = [
                measure(made, **one, compiled="header").mean,
                measure(made, **one).mean,
                measure(made, **many, compiled="mcmr").relative_l2,
                measure(made, **many, **summed).relative_l2,
            ]
            count = made.instructions[0] + made.instructions[2]
            rows.append([f"F({m},3)", order, str(count), *(f"{error:.2e}" for error in found)])
    return rows


def chains() -> list[list[str]]:
    """Rows of (channels summed at once, in how many chains, error in numpy, kernel, its error)."""
    from winogen.toolchain import host_target

    algorithm = transforms.load(4, 3)
    settings = {**PRACTICAL, "channels": _CHANNELS, "trials": 60}
    kernels = {
        tuple(summation(k, host_target(), _CHANNELS).values()): k for k in ("mcmr", "winograd2d")
    }
    rows = []
    for block, count in sorted({(_CHANNELS, 1), (64, 1), (32, 1), *kernels}, reverse=True):
        twin = measure(algorithm, **settings, block=block, chains=count).relative_l2
        row = [str(block), str(count), f"{twin:.2e}"]
        if name := kernels.get((block, count)):
            found = measure(algorithm, **settings, compiled=name).relative_l2
            row += [name, f"{found:.2e}"]
        rows.append(row)
    return rows


def main() -> None:
    """Print both tables."""
    with counting("measuring") as step:
        step(0, 2, "orders")
        by_order = orders()
        step(1, 2, "chains")
        by_chain = chains()
    _print("", "order", "instr.", "1 chan. C", "numpy", "64 chan. C", "numpy", rows=by_order)
    print(f"\nF(4,3), {_CHANNELS} channels, summed so many at once")
    _print("channels", "chains", "numpy", "kernel", "C", rows=by_chain)


def _print(*head: str, rows: list[list[str]]) -> None:
    for row in (head, *rows):
        print("".join(f"{text:<12}" for text in row).rstrip())


if __name__ == "__main__":
    main()
