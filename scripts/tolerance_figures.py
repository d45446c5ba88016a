"""How good `winogen.tolerance` is: errors of random kernels beside it, and mistakes that it finds.

python scripts/tolerance_figures.py           # 10,000 kernels, 40 mistakes
python scripts/tolerance_figures.py 1000      # fewer kernels
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from winogen import cook_toom, tolerance
from winogen.rounding.data import Float64Reference, distribution_of
from winogen.rounding.formats import FORMATS
from winogen.rounding.stages import Stages
from winogen.rounding.tiles import Direct, Rounding, axes_of, direct, winograd

CHANNELS = 64
TILES = 256  # of the layer with mistakes
KERNELS = [
    (f, dims, channels, dtype, arrays)
    for f in (cook_toom(2, 3), cook_toom(4, 3), cook_toom(6, 3), cook_toom(2, 5), Direct(2, 3))
    for dims in (1, 2)
    for channels in (1, 16)
    for dtype, arrays in (("float32", None), ("float64", None), ("float16", None),
                          ("bfloat16", None), ("float32", "bfloat16"))
]  # fmt: skip


def run(f, dims, channels, stages, rng, trials):
    """Random filters and tiles, what a kernel gives, and the errors (m, m, trials)."""
    size, taps = f.m + f.r - 1, f.r
    high = (size, taps) if dims == 2 else (1, 1)
    draw = distribution_of("normal")
    d = draw.inputs(rng, (channels, high[0], size, trials), stages.arrays)
    g = draw.filters(rng, (channels, high[1], taps, trials), stages.arrays)
    rounding = Rounding(stages, False, None)
    if isinstance(f, Direct):
        y = direct(rounding, g, d)
    else:
        y = winograd(axes_of(f, dims, "huffman"), rounding, g, d)
    return g, d, np.abs(Float64Reference(g, d, (1, 1)).errors(y))


def kernels(count: int, seed: int = 2026) -> tuple[int, int, int]:
    """(kernels, those beyond the bound, those within the predicted largest error)."""
    rng = np.random.default_rng(seed)
    total = beyond = within = 0
    each = -(-count // len(KERNELS))
    for f, dims, channels, dtype, arrays in KERNELS:
        stages = Stages.of(dtype, arrays)
        found = tolerance(f, dtype=dtype, arrays=arrays, channels=channels, dims=dims)
        g, d, errors = run(f, dims, channels, stages, rng, each)
        worst = errors.max((0, 1))
        g, d = (np.abs(a).astype(np.float64).max((1, 2)) for a in (g, d))
        least = found.worst - found.factor * channels  # what is added for numbers near 0
        bound = found.factor * (g * d).sum(0) + least
        total, beyond = total + each, beyond + int((worst > bound).sum())
        inside = int((worst <= found.largest).sum())
        within += inside
        if inside < each:
            name = str(f) if isinstance(f, Direct) else f"F({f.m},{f.r})"
            times = worst.max() / found.largest
            out = f"{each - inside} of {each} beyond, {times:.2f} x"
            print(f"  {name} {dims}D {channels} {dtype} {arrays or ''}: {out}")
    return total, beyond, within


def mistakes() -> Iterator[tuple[str, Callable[[dict], None]]]:
    """Names of 40 mistakes, and what each does to the parts of a right kernel."""

    def entry(name: str, i: int, j: int, change: Callable[[float], float]) -> Callable:
        def do(p: dict) -> None:
            p[name][i, j] = change(p[name][i, j])

        return do

    for i, j in ((0, 0), (1, 1), (2, 2)):
        yield f"tap {i},{j} is left out", lambda p, i=i, j=j: p["g"][:, i, j].fill(0)
    yield "taps mirrored", lambda p: p.update(g=p["g"][:, ::-1, ::-1])
    yield "taps transposed", lambda p: p.update(g=p["g"].swapaxes(1, 2))
    yield "tiles transposed", lambda p: p.update(d=p["d"].swapaxes(1, 2))
    for i in range(5):
        yield (
            f"points {i} and {i + 1} swapped in B",
            lambda p, i=i: p.update(BT=p["BT"][[*range(i), i + 1, i, *range(i + 2, 6)]]),
        )
    yield "one tile off", lambda p: p.update(d=np.roll(p["d"], 1, 3))
    yield "one row off", lambda p: p.update(d=np.roll(p["d"], 1, 1))
    yield "one column off", lambda p: p.update(d=np.roll(p["d"], 1, 2))
    yield "the last tile is stale", lambda p: p["d"][..., -1].fill(0)
    yield "the last channel is left out", lambda p: p["d"][-1].fill(0)
    yield "a channel twice", lambda p: p["d"].__setitem__(1, p["d"][0])
    for name, i, j in (("G", 1, 0), ("BT", 1, 2), ("AT", 1, 2)):
        yield f"a sign of {name}", entry(name, i, j, lambda x: -x)
    for name, i, j in (("G", 1, 0), ("BT", 0, 0), ("AT", 3, 3)):
        for digits in (3, 4, 5, 6):
            size = 1 + 10.0**-digits
            yield f"{name} wrong by 1e-{digits}", entry(name, i, j, lambda x, s=size: x * s)
    for stage in ("packed", "tiles", "product", "transform"):
        for kind in ("float16", "flyte24"):
            yield f"{stage} in {kind}", lambda p, s=stage, k=kind: p["kinds"].update({s: k})


def computed(p: dict) -> np.ndarray:
    """The kernel: products and sums over channels in float32, or what a mistake says."""
    stages = replace(Stages.of("float32"), **{k: FORMATS[v] for k, v in p["kinds"].items()})

    def matrices(name: str, x: np.ndarray, fmt) -> np.ndarray:
        for axis in (1, 2):
            x = np.moveaxis(x, axis, 0)
            sums = []
            for row in p[name]:
                total = np.zeros(x.shape[1:], fmt.carrier)
                for c, value in zip(fmt.round(row), x):
                    total = fmt.round(total + fmt.round(c * value))
                sums.append(total)
            x = np.moveaxis(np.stack(sums), 0, axis)
        return x

    f32 = FORMATS["float32"]
    u = stages.packed.round(matrices("G", p["g"], f32))
    v = stages.tiles.round(matrices("BT", p["d"], stages.transform))
    total = 0.0
    for a, b in zip(u, v):
        total = stages.product.round(total + stages.product.round(a * b))
    return matrices("AT", np.asarray(total)[None], stages.transform)[0].astype(np.float32)


def planted() -> list[tuple[str, float]]:
    """Mistakes, and their largest error over the tolerance; the first one is none at all."""
    f = cook_toom(4, 3)
    rng = np.random.default_rng(1)
    g = rng.standard_normal((CHANNELS, 3, 3, 1)).astype(np.float32)
    d = rng.standard_normal((CHANNELS, 6, 6, TILES)).astype(np.float32)
    exact = Float64Reference(np.broadcast_to(g, (*g.shape[:3], TILES)), d, (1, 1))
    allowed = tolerance(f, channels=CHANNELS, order="naive").relative * np.abs(exact.values).max()
    rows = []
    for name, spoil in [("none", lambda p: None), *mistakes()]:
        parts = {"g": g.copy(), "d": d.copy(), "kinds": {}}
        matrices = (("AT", f.at), ("G", f.g), ("BT", f.bt))
        parts |= {k: np.array([[float(c) for c in r] for r in rows_]) for k, rows_ in matrices}
        spoil(parts)
        rows.append((name, float(np.abs(exact.errors(computed(parts))).max() / allowed)))
    return rows


if __name__ == "__main__":
    total, beyond, within = kernels(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    print(f"{total} kernels: {beyond} beyond the bound, {within / total:.2%} within the predicted")
    (_, right), *wrong = planted()
    for name, times in wrong:
        print(f"  {name:<36}{times:10.3g} x the tolerance")
    found, loose = (sum(times > limit for _, times in wrong) for limit in (1, 10))
    print(f"the right kernel: {right:.2f} x; {found} of {len(wrong)} mistakes found, "
          f"{len(wrong) - loose} missed with a tolerance 10 x as large")  # fmt: skip
