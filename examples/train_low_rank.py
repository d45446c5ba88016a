"""Replace the 5x5 layers of a trained net by columns and rows of taps, and train it again.

Run: python examples/train_low_rank.py --ranks 4,16 --epochs 5

    python examples/train_low_rank.py --ranks 1,2 2,4 4,8 4,16 5,32

The net knows handwritten digits, with two convolutions; accuracy is on 600 that it never saw. For
each pair of ranks: the accuracy of singular values alone, and after some seconds of training, all
products and gradients of the convolutions by winogen. The digits are in ./lab.
Needs winogen_lab and torch: pip install ./lab '.[torch]'.
"""

import argparse
import copy
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("torch: cannot be imported; install it by pip install '.[torch]'")

import winogen.torch
from winogen.lowrank import LowRank

try:
    from winogen_lab.nets.digits import digits
except ImportError:
    sys.exit("winogen_lab: cannot be imported; install it by pip install ./lab")

PLACES = 0, 3  # of the convolutions
BATCH, RATE = 64, 1e-3


def factored(net: nn.Sequential, ranks: list[int]) -> tuple[nn.Sequential, list[LowRank]]:
    """A copy of the net with layers of low rank, and these."""
    parts, layers = list(copy.deepcopy(net)), []
    for place, rank in zip(PLACES, ranks):
        weight, bias = (p.detach().numpy() for p in net[place].parameters())
        layers.append(LowRank.from_conv(weight, bias, rank=rank, padding=net[place].padding))
        parts[place] = layers[-1].to_torch()
    return winogen.torch.replace(nn.Sequential(*parts), algorithm="direct"), layers


def train(net: nn.Sequential, pictures: torch.Tensor, labels: torch.Tensor, epochs: int) -> None:
    """Train all weights."""
    batches = len(labels) // BATCH
    optimizer = torch.optim.Adam(net.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    for _ in range(epochs):
        for part in torch.randperm(len(labels)).split(BATCH)[:batches]:
            loss = functional.cross_entropy(net(pictures[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


parser = argparse.ArgumentParser()
parser.add_argument("--ranks", nargs="+", default=["4,16"], help="of both layers, as 4,16")
parser.add_argument("--epochs", type=int, default=10)
asked = parser.parse_args()
torch.set_num_threads(1)
data = digits()
pictures, labels = map(torch.from_numpy, (data.training.pictures, data.training.labels))
seen = torch.from_numpy(data.held_out.pictures)


def accuracy(net: nn.Sequential) -> float:
    """The share of pictures held out that the net knows."""
    with torch.no_grad():
        return data.held_out.accuracy(net(seen).numpy())


original = data.to_torch()
print(f"original: {accuracy(original):.2%}")
for pair in asked.ranks:
    torch.manual_seed(0)
    net, layers = factored(original, [int(rank) for rank in pair.split(",")])
    fewer = " and ".join(f"{layer.compression:.2f}" for layer in layers)
    before, begin = accuracy(net), time.perf_counter()
    train(net, pictures, labels, asked.epochs)
    print(
        f"ranks {pair:>5}, {fewer} times fewer products: {before:.2%}, "
        f"after {time.perf_counter() - begin:.0f} s of training {accuracy(net):.2%}"
    )
