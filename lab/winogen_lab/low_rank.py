"""What low ranks do to the output of a trained net: PSNR on a picture that it was not fitted to.

All layers get the same compression, by plain singular values, weighted by what they get, and fitted
by least squares besides; or ranks by a budget of products.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from winogen.conv.arguments import choice
from winogen.extras import require
from winogen.lowrank.building import build
from winogen.lowrank.compressing import compressed
from winogen.lowrank.factors import Factors, decompose
from winogen.lowrank.form import Form
from winogen.lowrank.making import Fold
from winogen.lowrank.memory import ArrayMemory
from winogen.lowrank.searching import gauge
from winogen.lowrank.sites import Net, StagedWeights
from winogen.lowrank.subject import Subject
from winogen.onnx.comparison import differences
from winogen.onnx.model import copied
from winogen_lab.low_rank_rivals import Rival, rivals
from winogen_lab.nets import trained_net
from winogen_lab.nets.quality import CORNER, pieces

# The net's own example, and pictures of scikit-learn's: where a piece as large begins.
USUAL = "hopper"
PICTURES = {USUAL: (40, 100), "china": (150, 250), "flower": (150, 250)}
WAYS = ("plain", "weighted", "fitted", "by budget")
_OPSET = 17
# Strips of the corner, each of which judges choices of ranks that are fitted to the others.
_STRIPS = 4


def measure(
    name: str,
    factors: Sequence[float],
    step: Callable[[int, int, str], None] | None = None,
    with_rivals: bool = False,
    picture: str = USUAL,
) -> dict[str, Any]:
    """Return PSNR in dB by compression and by `WAYS`, the peak being the largest output.

    ``with_rivals``: of other ways with as many products, too, by filters alone. ``picture``: whose
    corners they are, of `PICTURES`.

    Raises InvalidValue for what is no trained net, NotInstalled for what it needs, MissingPackage.
    """
    choice("picture", picture, tuple(PICTURES))
    one = trained_net(name)
    calibration, test = _corners(one, picture)
    samples, held_out = [{"x": calibration}], [{"x": test}]
    folds = _folds(calibration)
    proto = exported(one.module(), calibration)
    net = Net(proto, samples)
    gauged = gauge(net, samples, ArrayMemory(proto), step)
    by_place = {one.site.place: one for one in gauged}
    known = {place: one.factors for place, one in by_place.items()}

    def psnr(stages: dict[int, StagedWeights]) -> float:
        return differences(net.proto, net.with_stages(stages), held_out)[0].psnr

    def cut(place: int, found: Factors, rank: int) -> StagedWeights:
        first, second = (weight.astype(np.float32) for weight in found.stages(rank))
        site = by_place[place].site
        return StagedWeights(site.layer, found.form, first, second, site.bias)

    rows = []
    for factor in factors:
        ranks = {place: one.form.rank(factor) for place, one in known.items()}
        plain = {
            place: cut(place, decompose(one.form, by_place[place].site.weight), ranks[place])
            for place, one in known.items()
        }
        weighted = {place: cut(place, one, ranks[place]) for place, one in known.items()}
        fitted = build(net, ranks, known, samples, step)
        _, report = compressed(
            Subject(proto), samples, held_out, budget=f"products:{factor}x", step=step, folds=folds
        )
        before, after = report.total("seconds")
        found = (
            psnr(plain), psnr(weighted), psnr({p: one.stages for p, one in fitted.items()}),
            report.psnr,
        )  # fmt: skip
        row = {"factor": factor, "psnr": dict(zip(WAYS, found)), "seconds": (before, after)}
        if with_rivals:
            row["rivals"] = _rivals(net, by_place, ranks, held_out)
        rows.append(row)
    return {"kind": "low rank", "net": name, "picture": picture, "rows": rows}


def _corners(net: Any, picture: str) -> tuple[np.ndarray, np.ndarray]:
    """The upper left and the lower right corner of a piece of a picture, (1, 3, 48, 48)."""
    if picture == USUAL:
        corners = pieces(net)
        return corners.calibration, corners.test
    datasets = require("sklearn.datasets", "lowrank", "winogen-lab")
    pixels = datasets.load_sample_image(f"{picture}.jpg").astype(np.float32) / 255
    (top, left), (*_, height, width) = PICTURES[picture], net.input
    x = pixels[top : top + height, left : left + width].transpose(2, 0, 1)[None]
    parts = x[:, :, :CORNER, :CORNER], x[:, :, -CORNER:, -CORNER:]
    return np.ascontiguousarray(parts[0]), np.ascontiguousarray(parts[1])


def _rivals(
    net: Net, gauged: Mapping[int, Any], ranks: Mapping[int, int], held_out: Sequence[Any]
) -> list[dict[str, Any]]:
    """PSNR of the net whose filters are what each rival makes of them, and the mean residual."""
    made: dict[str, list[tuple[int, Rival]]] = {}
    for place, one in gauged.items():
        form = Form.of(one.site.layer, "columns")
        for rival in rivals(form, one.site.weight, form.products(ranks[place])):
            made.setdefault(rival.way, []).append((place, rival))
    rows = []
    for way, layers in made.items():
        reason = next((rival.reason for _, rival in layers if rival.reason), "")
        row: dict[str, Any] = {"way": way, "reason": reason, "residual": None, "psnr": None}
        if not reason:
            proto = with_weights(net, {place: rival.weight for place, rival in layers})
            row["residual"] = float(np.mean([rival.residual or 0.0 for _, rival in layers]))
            row["psnr"] = differences(net.proto, proto, held_out)[0].psnr
        rows.append(row)
    return rows


def with_weights(net: Net, weights: Mapping[int, Any]) -> Any:
    """Return a copy of the model whose convolutions at some places have other weights."""
    helper = require("onnx.numpy_helper", "onnx")
    proto = copied(net.proto)
    names = {proto.graph.node[place].input[1]: np.float32(w) for place, w in weights.items()}
    for tensor in proto.graph.initializer:
        if tensor.name in names:
            tensor.CopyFrom(helper.from_array(names[tensor.name], tensor.name))
    return proto


def _folds(image: np.ndarray) -> list[Fold]:
    """Strips of an image (1, C, H, W): all but one, neighbours in one piece; and that one."""
    strips = np.array_split(image, _STRIPS, axis=3)
    found: list[Fold] = []
    for number, strip in enumerate(strips):
        rest = strips[:number], strips[number + 1 :]
        pieces = [np.concatenate(side, axis=3) for side in rest if side]
        found.append(([{"x": one} for one in pieces], [{"x": np.ascontiguousarray(strip)}]))
    return found


def table(found: dict[str, Any]) -> str:
    """Return what was measured for people to read."""
    lines = [
        f"{found['net']}, {found['picture']}: PSNR in dB on a piece of the picture that layers "
        "were not fitted to",
        "",
    ]
    lines.append(
        "products fewer  " + "".join(f"{way:>10}" for way in WAYS) + "   by budget, predicted"
    )
    for row in found["rows"]:
        before, after = row["seconds"]
        cells = "".join(f"{row['psnr'][way]:10.1f}" for way in WAYS)
        lines.append(f"{row['factor']:13g}x  {cells}   {before / after:.2f} of exact's speed")
        for rival in row.get("rivals", ()):
            said = f"left out: {rival['reason']}"
            if not rival["reason"]:
                said = f"{rival['psnr']:.1f} dB, mean error of filters {rival['residual']:.2f}"
            lines.append(f"{'':16}{rival['way']}: {said}")
    return "\n".join(
        [
            *lines,
            "",
            "exact: each layer as it was, by the algorithm that is predicted to be fastest",
        ]
    )


def exported(module: Any, x: np.ndarray) -> Any:
    """Return a torch module as a ModelProto from ``x`` (N, C, H, W), H and W open, to ``y``."""
    torch, onnx = require("torch", "torch"), require("onnx", "onnx")
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecation: the older exporter needs no onnxscript
        path = Path(folder, "net.onnx")
        torch.onnx.export(
            module, (torch.from_numpy(x),), str(path), dynamo=False, opset_version=_OPSET,
            input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {2: "h", 3: "w"}, "y": {2: "oh", 3: "ow"}},
        )  # fmt: skip
        return onnx.load(path)
