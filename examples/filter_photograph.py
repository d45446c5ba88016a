"""Filter a photograph: a blur and an edge detector on every colour of a picture, in one call each.

Run: python examples/filter_photograph.py

Writes blurred.png and edges.png into the current folder. Needs matplotlib: pip install '.[plot]'.
"""

import sys

import numpy as np

import winogen
from winogen.demo.pictures import photograph

try:
    import matplotlib.image
except ImportError:
    sys.exit("matplotlib: cannot be imported; install it by pip install '.[plot]'")


def filtered(picture: np.ndarray, *kernels: np.ndarray) -> np.ndarray:
    """(3, H, W) and M kernels (k, k) give (M, 3, H, W): every kernel on every colour."""
    weight = np.stack(kernels)[:, None].astype(picture.dtype)  # (M, 1, k, k)
    planes = picture[:, None]  # (3, 1, H, W): three images of one channel
    result = winogen.conv2d(planes, weight, padding="same", padding_mode="reflect")
    return result.transpose(1, 0, 2, 3)


def save(name: str, picture: np.ndarray) -> None:
    matplotlib.image.imsave(name, np.clip(picture, 0, 1).transpose(1, 2, 0))
    print(f"{name:<12} {picture.shape[2]} x {picture.shape[1]}, mean {picture.mean():.3f}")


picture = photograph()  # (3, 600, 512), float32 between 0 and 1; any picture of yours will do

# A Gaussian of 7 x 7, and the two Sobel filters. Kernels are not flipped.
bell = np.exp(-(np.arange(-3, 4) ** 2) / 8)
gaussian = np.outer(bell, bell) / bell.sum() ** 2
sobel = np.outer([1, 2, 1], [-1, 0, 1]) / 4

(blurred,) = filtered(picture, gaussian)
across, along = filtered(picture, sobel, sobel.T)

# The Gaussian is separable: a row and a column of it give the same with 14 products instead of 49.
row = (bell / bell.sum()).astype(np.float32).reshape(1, 1, 1, 7)
again = picture[:, None]
for weight in (row, row.transpose(0, 1, 3, 2)):
    again = winogen.conv2d(again, weight, padding="same", padding_mode="reflect")
print(f"two passes differ from one by {abs(again[:, 0] - blurred).max():.0e}")

save("blurred.png", blurred)
save("edges.png", np.hypot(across, along))
