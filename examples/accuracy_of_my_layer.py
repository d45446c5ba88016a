"""How accurate is Winograd on a layer of mine? Measured on its own weights and inputs.

Run: python examples/accuracy_of_my_layer.py

`winogen report --weight FILE --input FILE` draws a page of the same kind.
"""

import numpy as np

import winogen

# A layer as training leaves it: small weights, inputs behind a ReLU, some channels far larger.
draw = np.random.default_rng(1)
weight = 0.05 * draw.standard_normal((32, 48, 3, 3))
images = np.maximum(draw.standard_normal((1, 48, 40, 40)), 0)
images[:, :3] *= 20

# The reference: direct convolution in float64 of the numbers that float32 holds.
w32, x32 = weight.astype(np.float32), images.astype(np.float32)
exact = winogen.conv2d(x32.astype(float), w32.astype(float), padding=1, algorithm="direct")
largest = abs(exact).max()


def row(name: str, **options) -> None:
    conv = winogen.Conv2d(w32, padding=1, **options)
    error = abs(conv(x32) - exact)
    plan = conv.plan(x32.shape)
    relative_l2 = np.sqrt((error**2).sum() / (exact**2).sum())
    print(
        f"{name:<26} {error.max() / largest:8.1e} {relative_l2:8.1e} {plan.predicted_error:10.1e}"
        f" {plan.direct_multiplications / plan.multiplications:6.2f}x"
    )


print(f"{'':<26} {'max':>8} {'L2':>8} {'predicted':>10} {'fewer':>7}")
row("direct", algorithm="direct")
for m in (2, 4, 6):
    row(f"F({m}x{m}, 3x3) by points", algorithm="mcmr", tile=m)
row("F(6x6, 3x3) with x^2 + 1", moduli="x, x-3/4, x+3/4, x-3/2, x+3/2, x^2+1, inf")
row("what is chosen", tolerance=1e-5)
