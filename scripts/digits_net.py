#!/usr/bin/env python3
"""Train the small classifier of handwritten digits that the repository keeps, in half a minute.

    python scripts/digits_net.py

Two 5x5 convolutions, 1 to 32 to 64 maps, each with ReLU and 2x2 max pooling, and a linear layer, on
scikit-learn's 1797 digits of 8x8 pixels. 600 of them, the same ones each time, are held out, and
the accuracy on these is printed. Needs torch and scikit-learn. Writes
lab/winogen_lab/nets/tiny/digits.npz: weights in float16, pictures, and which ones are held out.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from winogen_lab.nets.digits import architecture, digits, write

SEED, HELD_OUT = 0, 600
EPOCHS, BATCH, RATE, DECAY = 60, 64, 3e-3, 1e-2


def turned(pictures: torch.Tensor) -> torch.Tensor:
    """The pictures, each a little turned, resized and shifted."""
    angle, zoom, right, down = (torch.rand(4, len(pictures)) - 0.5) * torch.tensor(
        [[0.4], [0.2], [0.25], [0.25]]
    )
    cosine, sine = (1 + zoom) * angle.cos(), (1 + zoom) * angle.sin()
    rows = torch.stack([cosine, -sine, right, sine, cosine, down], 1).reshape(-1, 2, 3)
    grid = functional.affine_grid(rows, list(pictures.shape), align_corners=False)
    return functional.grid_sample(pictures + 1, grid, align_corners=False) - 1


def train(net: nn.Sequential, pictures: torch.Tensor, labels: torch.Tensor) -> None:
    """Train with half of the features left out at random."""
    batches = len(labels) // BATCH
    optimizer = torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * batches)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(labels)).split(BATCH)[:batches]:
            features = functional.dropout(net[:-1](turned(pictures[part])), 0.5)
            loss = functional.cross_entropy(net[-1](features), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def main() -> None:
    """Train, write the file, and say how good what was written is."""
    from sklearn.datasets import load_digits

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    data = load_digits()
    order = np.random.default_rng(SEED).permutation(len(data.target))
    held_out, rest = order[:HELD_OUT], order[HELD_OUT:]
    pictures = torch.from_numpy(data.images.astype(np.float32))[:, None] / 8 - 1
    net = architecture()
    train(net, pictures[rest], torch.from_numpy(data.target)[rest])
    weights = {name: value.numpy() for name, value in net.state_dict().items()}
    write(weights, data.images, data.target, held_out)
    kept = digits()
    with torch.no_grad():
        for name, samples in (("trained with", kept.training), ("held out", kept.held_out)):
            scores = kept.to_torch()(torch.from_numpy(samples.pictures)).numpy()
            print(f"{name}: {samples.accuracy(scores):.2%} of {len(samples.labels)}")


if __name__ == "__main__":
    main()
