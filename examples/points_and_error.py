"""Points of your own: the exact matrices of F(4, 3), how short its transforms are, and its error.

Run: python examples/points_and_error.py
"""

from winogen import cook_toom, winograd
from winogen.codegen.transforms import load
from winogen.numerics import PRACTICAL, Direct, error_bound, estimate, measure

SETS = {
    "default": None,
    "classic": "0, 1, -1, 2, -2, inf",
    "mine": "0, 1/2, -1/2, 3/2, -3/2, inf",
}

f = cook_toom(4, 3, points=SETS["mine"])
print("B^T of the points", SETS["mine"])
for row in f.BT.tolist():
    print("   ", *(f"{value!s:>6}" for value in row))
assert f.verify()  # every coefficient of the bilinear identity, exactly

# One tile, one channel, uniform data, all in float32: the protocol of the literature. Then what a
# layer sees: 64 channels, normal data, filters transformed in float64; over direct convolution.
direct = measure(Direct(4, 3), **PRACTICAL).relative_l2
print("\n           instructions  expected  measured  largest  never above  in a layer")
for name, points in SETS.items():
    algorithm = load(4, 3, points)  # with its short programs
    seen, layer = measure(algorithm), measure(algorithm, **PRACTICAL)
    print(
        f"{name:<10} {sum(algorithm.instructions[::2]):12}  {estimate(algorithm).mean:8.1e}"
        f"  {seen.mean:8.1e}  {seen.maximum:7.0e}  {error_bound(algorithm):11.0e}"
        f"  {layer.relative_l2 / direct:9.1f}x"
    )

# A modulus of degree 2 in place of two points: one product more, and more accurate.
g = winograd(4, 3, moduli="x, x-1, x+1, x^2+1, inf")
error = measure(g, **PRACTICAL).relative_l2 / direct
print(
    f"\nwith x^2 + 1: {g.products} products along each axis instead of 6, in a layer {error:.1f}x"
)
