#!/usr/bin/env python3
"""Train the small ResNet that the repository keeps, in about a minute.

    python scripts/residual_net.py

A convolution and three residual blocks of 16 to 64 maps, on the digits that `digits_net.py` trains
with, as it does. How many of the others it knows is printed. Needs torch. Writes
lab/winogen_lab/nets/tiny/residual.npz: weights and statistics in float16.
"""

import torch
from digits_net import SEED, train

from winogen_lab.nets.digits import digits
from winogen_lab.nets.residual import architecture, residual, write


def main() -> None:
    """Train, write the file, and say how good what was written is."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    data, net = digits(), architecture()
    train(net, torch.from_numpy(data.training.pictures), torch.from_numpy(data.training.labels))
    write(net.eval())
    kept = residual()
    with torch.no_grad():
        for name, samples in (("trained with", data.training), ("held out", data.held_out)):
            scores = kept(torch.from_numpy(samples.pictures)).numpy()
            print(f"{name}: {samples.accuracy(scores):.2%} of {len(samples.labels)}")


if __name__ == "__main__":
    main()
