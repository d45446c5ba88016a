"""Takes one network through one door, as its owner would, and compares all that comes out.

    python through.py NET DOOR          in an empty folder, by an interpreter that has winogen

Doors: torch, onnx, bundle, quantize, c, compress. What is wrong ends in an AssertionError. Models
that come out are saved, and used by new processes: `python through.py NET DOOR used FILE`. What
they are given and have to compute lies in `right.npz`: those of onnxruntime import no torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

if sys.argv[2:4] not in (["onnx", "used"], ["bundle", "used"]):
    import nets
    import torch

WORKERS = 4
TOLERANCE = 2e-4  # of the largest number, against the network in float64


def arrays(value) -> list[np.ndarray]:
    """Return a network's outputs as a list of arrays."""
    several = value if isinstance(value, (tuple, list)) else (value,)
    return [np.asarray(one) for one in several]


def expected(name: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Return what the network computes in float64."""
    with torch.no_grad():
        return arrays(nets.prepared(name).double()(nets.inputs(shape).double()))


def compare(name: str, shape: tuple[int, ...], got) -> None:
    """Compare outputs with the network's own, in shape and numbers."""
    alike(f"{name} at {shape}", arrays(got), expected(name, shape))


def alike(what: str, got: list[np.ndarray], exact: list[np.ndarray]) -> None:
    """Compare outputs in shape and numbers."""
    assert [one.shape for one in got] == [one.shape for one in exact]
    for one, other in zip(got, exact):
        error = np.abs(one - other).max() / np.abs(other).max()
        assert error <= TOLERANCE, f"{what}: off by {error:.2g}"


def again(*words: str, **variables: str) -> str:
    """Run this program in a new process."""
    done = subprocess.run(
        [sys.executable, __file__, *words],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def command(*words: str, **variables: str) -> str:
    """Run a command that must succeed; return what it says."""
    done = subprocess.run(
        words, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "Traceback" not in said, f"{' '.join(words)}\n{said}"
    return said


def winogen(*words: str, **variables: str) -> str:
    """Run winogen's command."""
    return command(sys.executable, "-m", "winogen", *words, **variables)


def used(name: str, door: str, file: str) -> None:
    """Load what a door made, and call it at all sizes there are results of."""
    if door == "torch":
        model = torch.load(file, weights_only=False)
        call = lambda x: model(torch.from_numpy(x))
    else:
        call = session(file)
    with np.load("right.npz") as right:
        for given in [key for key in right if key.isdigit()]:
            exact = [right[key] for key in right if key.startswith(f"{given}/")]
            alike(f"{name}, input {given}", arrays(call(right[given])), exact)


def keep(name: str, *shapes: tuple[int, ...]) -> None:
    """Write inputs of these shapes, 0 and so on, and what is right for them, 0/0 and so on."""
    numbers = {}
    for given, shape in enumerate(shapes):
        numbers[f"{given}"] = nets.inputs(shape).numpy()
        numbers |= {f"{given}/{k}": one for k, one in enumerate(expected(name, shape))}
    np.savez("right.npz", **numbers)


def used_by_all(name: str, door: str, file: str) -> None:
    """Load it in a new process, then in several at a time."""
    subject = nets.SUBJECTS[name]
    keep(name, subject.shape, subject.second)
    again(name, door, "used", file)
    with ThreadPoolExecutor(WORKERS) as pool:
        for one in [pool.submit(again, name, door, "used", file) for _ in range(WORKERS)]:
            one.result()


def session(file: str):
    """Return onnxruntime's session of a file with winogen's operators, as a function."""
    import onnxruntime

    import winogen.onnx

    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(winogen.onnx.get_library_path())
    one = onnxruntime.InferenceSession(file, options)
    return lambda x: one.run(None, {one.get_inputs()[0].name: np.asarray(x)})


def exported(name: str, is_open: bool = True) -> str:
    """Write the network as ONNX; ``is_open``: its batch and sizes are left open."""
    model, subject = nets.prepared(name), nets.SUBJECTS[name]
    sizes = [k for k, pair in enumerate(zip(subject.shape, subject.second)) if len({*pair}) > 1]
    file = f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (nets.inputs(subject.shape),), file, input_names=["x"], opset_version=17,
            dynamic_axes={"x": {k: f"size{k}" for k in sizes}} if is_open else None, dynamo=False,
        )  # fmt: skip
    return file


def spelled(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))


def through_torch(name: str) -> None:
    """`optimize`, called at two sizes, reported, saved, loaded."""
    import winogen.torch

    subject = nets.SUBJECTS[name]
    x = nets.inputs(subject.shape)
    faster = winogen.torch.optimize(nets.prepared(name), (x,))
    compare(name, subject.shape, faster(x))
    compare(name, subject.second, faster(nets.inputs(subject.second)))
    print(winogen.torch.report(faster))
    torch.save(faster, "model.pt")
    used_by_all(name, "torch", "model.pt")


def through_onnx(name: str) -> None:
    """`winogen onnx optimize` of a file with open sizes, and its report."""
    file, shape = exported(name), nets.SUBJECTS[name].shape
    print(winogen("onnx", "optimize", file, "-o", "fast.onnx", "--input", f"x={spelled(shape)}"))
    print(winogen("onnx", "report", file, "--input", f"x={spelled(shape)}"))
    fixed = session("fast.onnx")
    compare(name, shape, fixed(nets.inputs(shape)))
    print(winogen("onnx", "optimize", file, "-o", "open.onnx"))
    used_by_all(name, "onnx", "open.onnx")


def through_bundle(name: str) -> None:
    """`winogen bundle` of both kinds of model, run where no compiler is."""
    shape = nets.SUBJECTS[name].shape
    said = subprocess.run(
        [sys.executable, "-m", "winogen", "bundle", exported(name), "--input",
         f"x={spelled(shape)}", "-o", "served"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if said.returncode == 2 and "allowed: one that winogen makes faster" in said.stderr:
        return
    assert said.returncode == 0, said.stdout + said.stderr
    alone = {"WINOGEN_PREBUILT": str(Path("served").resolve()), "PATH": "/nowhere", "CC": ""}
    alone["WINOGEN_CACHE"] = str(Path("empty").resolve())
    keep(name, shape)
    again(name, "bundle", "used", "served/model.onnx", **alone)


def through_quantize(name: str) -> None:
    """`winogen onnx quantize`, and the network of bytes as C, whose own test runs."""
    subject = nets.SUBJECTS[name]
    samples = torch.cat([nets.inputs((1, *subject.shape[1:]), seed) for seed in range(4)]).numpy()
    np.save("samples.npy", samples)
    print(winogen("onnx", "quantize", exported(name, False), "samples.npy", "-o", "narrow.onnx"))
    x = nets.inputs(subject.shape)
    exact, got = expected(name, subject.shape), session("narrow.onnx")(x)
    for one, other in zip(got, exact):  # bytes have two digits
        assert np.linalg.norm(one - other) <= 0.3 * np.linalg.norm(other), name
    print(winogen("generate", "narrow.onnx", "--name", "net", "-o", "bytes"))
    print(command("make", "-s", "-C", "bytes", "test"))


def through_c(name: str) -> None:
    """`winogen generate` for this CPU and for any other."""
    file = exported(name, False)
    for isa in (None, "generic"):
        folder = isa or "native"
        words = ["--isa", isa] if isa else []
        print(winogen("generate", file, *words, "--name", "net", "-o", folder))
        print(command("make", "-s", "-C", folder, "test"))


def through_compress(name: str) -> None:
    """`winogen compress`, whose file onnxruntime runs."""
    import onnxruntime

    subject = nets.SUBJECTS[name]
    several = torch.cat([nets.inputs((1, *subject.shape[1:]), seed) for seed in range(6)])
    np.savez("inputs.npz", x=several.numpy())
    words = [
        "compress",
        exported(name, False),
        "--budget",
        "products:1.05x",
        "--data",
        "inputs.npz",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "winogen", *words, "-o", "small.onnx"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "allowed: what can be met" in done.stderr:  # random weights have no low rank
        return
    if len(subject.shape) != 4:  # a column and a row of taps are of layers of two axes
        assert done.returncode == 2 and "no convolution that may become two" in done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    got = onnxruntime.InferenceSession("small.onnx").run(None, {"x": several[:1].numpy()})
    assert [one.shape for one in got] == [one.shape for one in expected(name, subject.shape)]


def main(name: str, door: str, what: str = "", file: str = "") -> None:
    """Walk."""
    if "torch" in globals():
        torch.set_grad_enabled(False)
    if what == "used":
        used(name, door, file)
    else:
        globals()[f"through_{door}"](name)


if __name__ == "__main__":
    main(*sys.argv[1:])
