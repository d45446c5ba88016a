"""Quantized nets of PyTorch by winogen, torch and torch.compile, in turns: a table of docs/int8.md.

    python scripts/quantized_torch.py
    python scripts/quantized_torch.py resnet18 --threads 2 --calls 40

Quantized on noise by torchao's X86InductorQuantizer, whose graphs torch.compile takes to oneDNN:
pip install torchao.
Times are the least of all calls in ms; "float32": of the net before it was quantized. The gain is
the fastest of torch's over winogen's; "codes" the largest share of a layer's codes that differ from
the model's, each by one step; "off" how far outputs are from the model's, of the largest: those of
winogen and of torch.compile.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import torch

import winogen.torch
from winogen.tasks.turns import in_turns
from winogen_lab.nets import NETS


def drawn(net: torch.nn.Module) -> torch.nn.Module:
    """Return a net with random weights with which numbers stay of a size from layer to layer."""
    for module in net.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.bias, std=0.1)
    return net.eval()


def quantized(net: torch.nn.Module, example: torch.Tensor) -> torch.nn.Module:
    """Return a net quantized as PyTorch does it for its own compiler."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    config = x86.get_default_x86_inductor_quantization_config()
    quantizer = x86.X86InductorQuantizer().set_global(config)
    prepared = prepare_pt2e(torch.export.export(net, (example,)).module(), quantizer)
    for _ in range(4):
        prepared(torch.randn_like(example))
    made: torch.nn.Module = convert_pt2e(prepared)
    return made


def compiled(model: torch.nn.Module, example: torch.Tensor) -> Callable[..., Any]:
    """Return the same by torch.compile, whose passes take quantized graphs to oneDNN."""
    from torch._inductor import config

    config.freezing = True
    made: Callable[..., Any] = torch.compile(model)
    made(example)
    return made


def lowered(model: torch.nn.Module, example: torch.Tensor) -> Callable[..., Any]:
    """Return the same by integer kernels of oneDNN alone, as torchao lowers it for x86."""
    from torchao.quantization.pt2e.lowering import lower_pt2e_quantized_to_x86

    made: Callable[..., Any] = lower_pt2e_quantized_to_x86(model, (example,))
    made(example)
    return made


def least(
    calls: dict[str, Callable[[], Any]], count: int, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """Return the least milliseconds of so many calls of each, which take turns."""
    seconds = in_turns([*calls.values()], clock, (count, count))
    return {name: 1e3 * min(times) for name, times in zip(calls, seconds)}


def differing(model: torch.nn.Module, example: torch.Tensor) -> float:
    """Return the largest share of a layer's codes that are not the model's."""
    from winogen.torch import code_proof, proving
    from winogen.torch.building import build
    from winogen.torch.calling import Calls
    from winogen.torch.code_deciding import modules_of
    from winogen.torch.copies import evaluated
    from winogen.torch.reading import read
    from winogen.torch.tracing import traced

    own = evaluated(model)
    trace: Any = next(iter(traced(own, Calls(own, (example,), {}))))
    reading = read(trace.module)
    values = proving.recorded(trace.module, [example])
    found = modules_of(build(reading, reading.graph, ()))
    return max(share for one in found for share in code_proof.shares(one, values).values())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="*", default=["resnet18", "resnet50", "mobilenet-v2"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--no-compile", action="store_true", help="leave out what torch compiles")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(asked.threads)
    print("| net | winogen | as it is | torch.compile | lowered | float32 | gain | codes | off |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in asked.nets:
        torch.manual_seed(0)
        net, example = drawn(NETS[name].module()), torch.randn(NETS[name].input)
        with torch.no_grad():
            model = quantized(net, example)
            fast = winogen.torch.optimize(model, example, threads=asked.threads, seconds=None)
            plain = winogen.torch.optimize(net, example, threads=asked.threads)
            calls = {"winogen": fast, "torch": model, "float32": plain}
            if not asked.no_compile:
                calls |= {"compile": compiled(model, example), "lowered": lowered(model, example)}
            ms = least({key: partial(one, example) for key, one in calls.items()}, asked.calls)
            share, wanted = differing(model, example), model(example)
            off = [
                float((calls[one](example) - wanted).abs().max() / wanted.abs().max())
                for one in ("winogen", "compile")
                if one in calls
            ]
        names = ("winogen", "torch", "compile", "lowered", "float32")
        times = " | ".join(f"{ms[one]:.2f}" if one in ms else "" for one in names)
        best = min(time for one, time in ms.items() if one not in ("winogen", "float32"))
        gain = best / ms["winogen"]
        errors = ", ".join(f"{one:.1e}" for one in off)
        print(f"| {name} | {times} | {gain:.2f} | {100 * share:.2f} % | {errors} |", flush=True)


if __name__ == "__main__":
    main()
