"""Quantized models as PyTorch's quantizers write them, made by torch alone; nets of real size."""

from math import prod

import torch
import torch.ao.quantization.fx._decomposed  # the operators; torchao imports it, too
from torch import fx, nn

aten, qd = torch.ops.aten, torch.ops.quantized_decomposed
TRANSPOSED, JOINS = aten.conv_transpose2d.input, aten.cat.default
PRODUCTS = (aten.conv2d.default, aten.conv2d.padding, aten.linear.default, TRANSPOSED)
ACTIVATIONS = (aten.relu.default, aten.hardtanh.default, aten.relu6.default, aten.relu_.default,
               aten.hardtanh_.default)  # fmt: skip
SUMS = (aten.add.Tensor, aten.add_.Tensor)
# What chooses numbers: its output has the codes of its input.
KEEPS = (aten.max_pool2d.default, aten.upsample_nearest2d.vec, aten.upsample_nearest2d.default,
         aten.pixel_shuffle.default)  # fmt: skip
OTHERS = (*SUMS, *KEEPS, JOINS,
          aten.adaptive_avg_pool2d.default, aten.avg_pool2d.default, aten.mean.dim)  # fmt: skip
FLAT = (aten.flatten.using_ints,)


class Ranges(fx.Interpreter):
    """Runs a graph and notes the least and the largest number of each tensor."""

    def run_node(self, n):
        y = super().run_node(n)
        if isinstance(y, torch.Tensor) and y.is_floating_point():
            n.meta["range"] = float(y.min()), float(y.max())
        return y


def quantized(net, *examples, dtype=torch.uint8, fuses=False, limits=None, static=True):
    """Return a module of torch's own graph whose convolutions, sums and pools are quantized.

    As `convert_pt2e` writes it: weights of int8 with a scale for each filter, tensors of ``dtype``
    with a scale and a zero point. ``fuses``: whether a sum takes a convolution's numbers as they
    are, and not quantized. ``limits``: the least and the largest code.
    """
    net.eval()
    dynamic = None if static else ({0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO,
                                    3: torch.export.Dim.AUTO},)  # fmt: skip
    made = torch.export.export(net, examples, dynamic_shapes=dynamic).module()
    with torch.no_grad():
        Ranges(made).run(*examples)
    ends = limits or (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    written = _Writer(made, ends, dtype, fuses)
    written.write()
    made.graph.lint()
    made.recompile()
    return made


class _Writer:
    def __init__(self, module, ends, dtype, fuses):
        self.module, self.ends, self.dtype, self.fuses = module, ends, dtype, fuses
        self.graph, self.codes = module.graph, {}

    def write(self):
        for node in list(self.graph.nodes):
            if node.target not in (*PRODUCTS, *OTHERS, *FLAT):
                continue
            if node.target in PRODUCTS:
                self._weights(node)
            if node.target is JOINS:
                node.update_arg(0, [self._numbers(one, node) for one in node.args[0]])
                continue
            places = [0, 1] if node.target in SUMS else [0]
            if self.fuses and len(places) > 1:
                convs = [place for place in places if node.args[place].target in PRODUCTS]
                places.remove(convs[-1])
            for place in places:
                node.update_arg(place, self._numbers(node.args[place], node))

    def _numbers(self, tensor, reader):
        """A dequantized tensor for one reader, as quantizers give every reader its own."""
        if tensor not in self.codes:
            before = self._kept(tensor)
            low, high = (before or tensor).meta["range"]
            low, high = min(low, 0.0), max(high, 1e-3)
            scale = (high - low) / (self.ends[1] - self.ends[0])
            zero = max(self.ends[0], min(self.ends[1], round(self.ends[0] - low / scale)))
            args = scale, zero, *self.ends, self.dtype
            with self.graph.inserting_after(tensor):
                q = self.graph.call_function(qd.quantize_per_tensor.default, (tensor, *args))
            self.codes[tensor] = q, args
        q, args = self.codes[tensor]
        with self.graph.inserting_before(reader):
            return self.graph.call_function(qd.dequantize_per_tensor.default, (q, *args))

    def _kept(self, tensor):
        """The tensor whose range one has, behind what chooses numbers."""
        while tensor.target in (*KEEPS, *FLAT):
            tensor = tensor.args[0]
            while "quantize" in str(tensor.target):
                tensor = tensor.args[0]
        return tensor

    def _weights(self, node):
        weight = _held(self.module, node.args[1].target)
        axis = int(node.target is TRANSPOSED)
        others = [one for one in range(weight.dim()) if one != axis]
        scale = weight.abs().amax(others).clamp(min=1e-8) / 127
        shape = [1] * weight.dim()
        shape[axis] = -1
        codes = (weight / scale.view(shape)).round().clamp(-128, 127).to(torch.int8)
        stem = f"frozen_{node.name}"
        names = {"": codes, "_scale": scale.detach(), "_zero": torch.zeros(len(scale)).long()}
        for name, tensor in names.items():
            self.module.register_buffer(stem + name, tensor.detach())
        with self.graph.inserting_before(node):
            held = [self.graph.get_attr(stem + name) for name in names]
            made = self.graph.call_function(
                qd.dequantize_per_channel.default, (*held, axis, -128, 127, torch.int8)
            )
        node.update_arg(1, made)


def _held(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


# ---- nets ----------------------------------------------------------------------------------------


def scaled(net, seed=0):
    """Random weights with which numbers stay of a size from layer to layer."""
    generator = torch.Generator().manual_seed(seed)
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            taps = module.weight[0].numel()
            if isinstance(module, nn.ConvTranspose2d):
                taps = module.weight.numel() / module.out_channels / prod(module.stride)
            with torch.no_grad():
                module.weight.copy_(torch.randn(module.weight.shape, generator=generator))
                module.weight.mul_((2 / taps) ** 0.5)
                if module.bias is not None:
                    module.bias.copy_(0.1 * torch.randn(module.bias.shape, generator=generator))
    return net.eval()


class Basic(nn.Module):
    """A residual block of ResNet-18, its normalizations folded."""

    def __init__(self, channels, filters, stride):
        super().__init__()
        self.first = nn.Conv2d(channels, filters, 3, stride, 1)
        self.second = nn.Conv2d(filters, filters, 3, 1, 1)
        self.short = nn.Conv2d(channels, filters, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(y + self.short(x))


class ResNet18(nn.Module):
    """ResNet-18, its normalizations folded."""

    def __init__(self, width=64, classes=1000):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, channels = [], width
        for stage in range(4):
            for place in range(2):
                filters = width << stage
                blocks.append(Basic(channels, filters, 2 if stage and not place else 1))
                channels = filters
        self.blocks = nn.Sequential(*blocks)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class Inverted(nn.Module):
    """A block of MobileNet-v2, its normalizations folded."""

    def __init__(self, channels, filters, stride, expansion):
        super().__init__()
        inner = channels * expansion
        layers = [nn.Conv2d(channels, inner, 1), nn.ReLU6()] if expansion > 1 else []
        layers += [nn.Conv2d(inner, inner, 3, stride, 1, groups=inner), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(inner, filters, 1))
        self.adds = stride == 1 and channels == filters

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNetV2(nn.Module):
    """MobileNet-v2, its normalizations folded."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip

    def __init__(self, classes=1000):
        super().__init__()
        layers, channels = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU6()], 32
        for expansion, filters, count, stride in self.STAGES:
            for place in range(count):
                layers.append(Inverted(channels, filters, 1 if place else stride, expansion))
                channels = filters
        self.features = nn.Sequential(*layers, nn.Conv2d(channels, 1280, 1), nn.ReLU6())
        self.head = nn.Linear(1280, classes)

    def forward(self, x):
        return self.head(self.features(x).mean([2, 3]))


class UNet(nn.Module):
    """A small U-Net whose maps are enlarged in all three ways, to twice the picture's size."""

    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.deep = nn.Conv2d(2 * width, 4 * width, 3, padding=1)
        self.up = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.merge = nn.Conv2d(4 * width, 2 * width, 3, padding=1)
        self.last = nn.Conv2d(3 * width, 3 * width, 3, padding=1)
        self.fine = nn.Conv2d(3 * width, 12, 1)
        self.head = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        wide = torch.relu(self.first(x))
        half = torch.relu(self.second(nn.functional.max_pool2d(wide, 2)))
        deep = torch.relu(self.deep(nn.functional.max_pool2d(half, 2)))
        y = torch.relu(self.merge(torch.cat([torch.relu(self.up(deep)), half], 1)))
        y = nn.functional.interpolate(y, scale_factor=2)
        y = self.fine(torch.relu(self.last(torch.cat([y, wide], 1))))
        return self.head(nn.functional.pixel_shuffle(y, 2))
