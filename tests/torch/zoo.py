"""Known architectures through both doors: all load, all compute what they did.

    pip install -e '.[torch,onnx]' -e './lab[nets,zoo]'
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
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))

import numpy as np
import torch
from alike import compared, difference, tensors, trace
from architectures import Entry, entries
from torch import nn

from winogen_lab.nets import NotInstalled

SECONDS = 1800  # of one model
RESULT = "result: "


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
    from winogen.testing import every_layer

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
    from winogen.testing import every_layer

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
        with every_layer():
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
    known = {entry.name: entry for entry in entries()}
    for name in asked.only:
        if name not in known:
            parser.error(f"--only: got {name!r}; allowed: {', '.join(sorted(known))}")
    chosen = [known[name] for name in asked.only or known]
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
