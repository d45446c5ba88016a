"""What the nets are built of, and numbers for their weights that keep activations in bounds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Around zero, a net of random weights would enlarge rounding errors a hundredfold on their way to
# its output: every ReLU takes half of the signal away, and trained nets do nothing of the kind.
_SHIFT = 0.7
# Of the squared mean of a channel.
_LEAST_VARIANCE = 0.05


class ConvBN(nn.Sequential):
    """Convolution, batch normalisation and an activation: (N, C, H, W) to (N, M, H', W')."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, int] = 3,
        stride: int = 1,
        padding: int | tuple[int, int] | None = None,
        groups: int = 1,
        activation: type[nn.Module] | None = nn.ReLU,
        eps: float = 1e-5,
    ):
        if padding is None:
            padding = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(outputs, eps=eps),
        ]
        if activation is not None:
            layers.append(activation())
        super().__init__(*layers)


class Classifier(nn.Module):
    """The mean over the map, and a linear layer."""

    def __init__(self, channels: int, classes: int = 1000):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.flatten(self.pool(x), 1))


def fill(model: nn.Module, example: Tensor, seed: int) -> None:
    """Give a net random weights that a trained one could have, in place; the same for a seed.

    Filters keep the variance of what passes through. Batch normalisations get the statistics of
    ``example`` and of noise, as they would by training, and scales and shifts that differ by
    channel: else all of them would be the identity, and folding them wrong would go unnoticed.
    """
    generator = torch.Generator().manual_seed(seed)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
                _fill_weights(module, generator)
            elif isinstance(module, nn.BatchNorm2d):
                module.weight.uniform_(0.6, 1.4, generator=generator)
                module.bias.normal_(_SHIFT, 0.2, generator=generator)
                module.momentum = 1.0  # the statistics of the one batch that follows
        model.eval()
        for module in norms:
            module.train()
        if norms:
            noise = torch.randn(example.shape, generator=generator)
            model(torch.cat([example, noise]))
        for module in norms:
            module.momentum = 0.1
            assert module.running_mean is not None and module.running_var is not None
            # Means over whole pictures hardly differ between two of them; a net that enlarged the
            # difference would enlarge rounding errors, too.
            least = _LEAST_VARIANCE * module.running_mean.square()
            module.running_var.copy_(torch.maximum(module.running_var, least))
    model.eval()


def _fill_weights(
    module: nn.Conv2d | nn.ConvTranspose2d | nn.Linear, generator: torch.Generator
) -> None:
    weight = module.weight
    fan_in = weight[0].numel()
    if isinstance(module, nn.ConvTranspose2d):  # each output sums K * K / stride^2 taps
        kernel, stride = weight[0, 0].numel(), module.stride[0] * module.stride[1]
        fan_in = weight.shape[0] * max(1, kernel // stride)
    weight.normal_(0.0, (2.0 / fan_in) ** 0.5, generator=generator)
    if module.bias is not None:
        module.bias.normal_(0.0, 0.05, generator=generator)
