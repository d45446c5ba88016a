"""Nets of torchvision and timm, with random weights: which there are, and how they are built.

This file imports neither torch nor the packages.
"""

from __future__ import annotations

import re
import sys
from typing import Any

# Options without which the packages would fetch weights, or spend a minute on drawing them.
_OPTIONS: dict[str, dict[str, Any]] = {
    "googlenet": {"init_weights": False, "aux_logits": False},
    "deeplabv3_mobilenet_v3_large": {"weights_backbone": None},
    "fcn_resnet50": {"weights_backbone": None},
    "lraspp_mobilenet_v3_large": {"weights_backbone": None},
}
# By package; pictures of 224x224.
NAMES = {
    "torchvision": (
        "alexnet", "squeezenet1_1", "googlenet", "resnext50_32x4d", "shufflenet_v2_x1_0",
        "mnasnet1_0", "mobilenet_v3_small", "mobilenet_v3_large", "efficientnet_b0",
        "regnet_x_400mf", "regnet_y_400mf", "convnext_tiny", "deeplabv3_mobilenet_v3_large",
        "fcn_resnet50", "lraspp_mobilenet_v3_large",
    ),
    "timm": (
        "hrnet_w18_small", "res2net50_26w_4s", "repvgg_a0", "ghostnet_100", "cspresnet50",
        "dla34", "ese_vovnet19b_dw",
    ),
}  # fmt: skip


def module(package: str, name: str) -> Any:
    """Return a net as a torch module with one output, with weights as the package draws them."""
    import_torchvision()
    if package == "timm":
        import timm

        return _apart(timm.create_model(name, pretrained=False))
    from torchvision.models import get_model

    model = get_model(name, weights=None, **_OPTIONS.get(name, {}))
    return _first_output(model) if "segmentation" in type(model).__module__ else model


def _apart(model: Any) -> Any:
    """A model whose normalizations do not hold activations: nobody folds them into filters else."""
    from timm.layers import BatchNormAct2d
    from torch import nn

    for name, child in model.named_children():
        if not isinstance(child, BatchNormAct2d):
            _apart(child)
            continue
        norm = nn.BatchNorm2d(child.num_features, child.eps)
        setattr(model, name, nn.Sequential(norm, child.drop, child.act))
    return model


def _first_output(model: Any) -> Any:
    """A net that returns a dict, as one with its entry "out" alone."""
    from torch import nn

    class FirstOutput(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model(x)["out"]

    return FirstOutput()


def import_torchvision() -> None:
    """Import torchvision although its compiled operators may be made for another torch.

    They are for detection, and no net here has any; it loads once their names are declared.
    """
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    while True:
        try:
            import torchvision  # noqa: F401

            return
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            library.define(f"{missing[1]}(Tensor x) -> Tensor")
            _KEPT.append(library)
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]


_KEPT: list[Any] = []  # declarations end with their library
