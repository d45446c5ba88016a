"""Random nets by the thousand: an optimized model does what the original does.

    python tests/torch/fuzz_nets.py --nets 3000 --seed 1 --jobs 2

Every net is optimized with all layers by winogen, and called as its users might: again, with
another size and batch, channels-last, strided, empty, with keywords. The original, made anew, gets
the same calls; both must return the same structure and numbers, change their inputs alike, or both
raise. A net follows from the seed and its index alone, so that a failure is repeated in one line,
which is printed with it. A process that dies is a failure of its net, and others go on.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

import torch
from alike import ABSOLUTE, compared, difference, mapped, outcome, tensors, trace
from random_nets import Net, net_of
from torch.utils._python_dispatch import TorchDispatchMode

import winogen.torch
from winogen.testing import every_layer

SECONDS = 300  # of one net, after which it hangs
# L2 errors of gradients: where an activation has a kink, rounding may choose the other side.
GRADIENT = 1e-2


@dataclass
class Result:
    """What came of a net."""

    index: int
    wrong: list[str] = field(default_factory=list)
    opaque: bool = False
    convolutions: int = 0  # that torch computes in a call of the original on the example
    left: int = 0  # and in the optimized model
    source: str = ""
    why: list[str] = field(default_factory=list)  # torch computes what it does


@dataclass(frozen=True)
class Call:
    """A call, whose arguments are made when they are needed."""

    what: str
    make: Callable[[], tuple[tuple, dict]]


class _Convolutions(TorchDispatchMode):
    """Counts the convolutions that torch computes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        space, _, name = function.name().partition(".")[0].partition("::")
        theirs = space == "aten" and name in ("conv2d", "convolution", "_convolution")
        self.count += theirs and True not in args[6:7]
        return function(*args, **(kwargs or {}))


def calls_of(net: Net, made: dict[str, Any]) -> list[Call]:
    """The calls of a net, in their order."""
    inputs, others = made["inputs"], made["others"]
    (h, w), (h2, w2) = net.size, net.other_size

    def laid(layout: Callable[[torch.Tensor], torch.Tensor], n: int, *size: int) -> Any:
        return lambda: mapped(lambda t: layout(t) if t.dim() == 4 else t, inputs(n, *size))

    calls = [Call(what, lambda: inputs(net.batch, h, w)) for what in ("first call", "second call")]
    calls += [
        Call("another size", lambda: inputs(net.batch, h2, w2)),
        Call("another batch", lambda: inputs(net.other_batch, h, w)),
        Call("channels last", laid(_last, net.batch, h, w)),
        Call("strided, another size and batch", laid(_strided, net.other_batch, h2, w2)),
        Call("empty batch", lambda: inputs(0, h, w)),
    ]
    for number in range(len(others(1, h, w))):
        calls.append(Call(f"other arguments {number}", lambda i=number: others(net.batch, h, w)[i]))
    calls.append(Call("the example again", lambda: inputs(net.batch, h, w)))
    return calls


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _strided(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, every other one of a larger memory."""
    n, c, h, w = x.shape
    around = x.new_full((n, c + 1, h + 2, 2 * w), 7.0)
    around[:, 1:, 1:-1, ::2] = x
    return around[:, 1:, 1:-1, ::2]


def check(net: Net) -> Result:
    """Return what is wrong with a net, and how many of its convolutions winogen computes."""
    result = Result(0, opaque=net.opaque, source=net.source)
    made = net.load()
    original, given = made["model"](), made["model"]()
    before = _state(given)
    example, _ = made["inputs"](net.batch, *net.size)
    mode = {"inference_mode": torch.inference_mode}.get(net.mode, torch.no_grad)
    with mode():
        theirs = outcome(original, *made["inputs"](net.batch, *net.size)[0])
    if theirs.error is not None:
        return result  # it does not run at all; the text of another net will
    original = made["model"]()
    with every_layer():
        fast = outcome(winogen.torch.optimize, given, example)
    if fast.error is not None:
        result.wrong.append(f"optimize {fast}\n{trace(fast.error)}")
        return result
    fast = fast.value
    if (found := difference(_state(given), before, None, "the model given")) is not None:
        result.wrong.append(found)
    if found := difference(example, made["inputs"](net.batch, *net.size)[0], None, "example"):
        result.wrong.append(found)
    exact = outcome(lambda: made["model"]().double()).value
    for call in calls_of(net, made):
        with mode():
            wrong = compared(fast, original, call.make, exact)
        if wrong:
            result.wrong.append(f"{call.what}: {wrong}")
            break  # what state there is differs from now on
    if net.mode == "gradient" and not result.wrong:
        wrong = _gradient(fast, original, made["inputs"](net.batch, *net.size))
        result.wrong += [f"gradient: {wrong}"] if wrong else []
    for model, count in ((original, "convolutions"), (fast, "left")):
        with mode(), _Convolutions() as counted:
            outcome(model, *made["inputs"](net.batch, *net.size)[0])
        setattr(result, count, counted.count)
    table = winogen.torch.report(fast)
    result.why = [row.why for row in table.rows if row.runs == "torch"]
    if result.left > len(result.why):
        result.why += [table.tracer] * (result.left - len(result.why))
    return result


def _gradient(fast: Any, original: Any, arguments: tuple[tuple, dict]) -> str | None:
    """With respect to the inputs, of the sum of all outputs; the weights are frozen in both."""
    original.requires_grad_(False)
    found = []
    for model in (original, fast):
        args = mapped(
            lambda t: t.detach().clone().requires_grad_(t.is_floating_point()), arguments[0]
        )
        wanted = [t for t in tensors(args) if t.requires_grad]

        def gradients(model: Any = model, args: Any = args, wanted: Any = wanted) -> Any:
            out = [t for t in tensors(model(*args)) if t.requires_grad]
            if not out:
                return (None,) * len(wanted)  # all is frozen, and nothing comes from the inputs
            return torch.autograd.grad(
                sum(t.double().sum() for t in out), wanted, allow_unused=True
            )

        found.append(outcome(gradients))
    theirs, ours = found
    if theirs.error is not None:
        return None
    if ours.error is not None:
        return f"{ours}, the original {theirs}\n{trace(ours.error)}"
    for one, other in zip(ours.value, theirs.value):
        if one is None and other is None:
            continue
        if one is None or other is None or one.shape != other.shape:
            return difference(one, other, None, "gradient")
        if not (one - other).norm() <= GRADIENT * other.norm() + ABSOLUTE:
            return f"off by {(one - other).norm():.2g} of {other.norm():.2g}"
    return None


def _state(model: torch.nn.Module) -> dict[str, Any]:
    """What optimize must leave alone."""
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    numbers = {name: t.detach().clone() for name, t in model.state_dict().items()}
    modes = [m.training for m in model.modules()]
    grads = [p.requires_grad for p in model.parameters()]
    python = {k: v for k, v in vars(model).items() if isinstance(v, (int, float, str))}
    return {
        "numbers": numbers,
        "hooks": hooks,
        "modes": modes,
        "requires_grad": grads,
        "fields": python,
    }


def run(seed: int, index: int) -> Result:
    """Return the result of a net; whatever the check raises is its own fault, and counts."""
    torch.manual_seed(0)
    random.seed(0)
    net = net_of(seed, index)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = check(net)
    except Exception as error:
        result = Result(index, [f"the check itself: {error}\n{trace(error)}"], source=net.source)
    result.index = index
    return result


def prepare(quickly: bool) -> None:
    """Make this process one that compiles quickly, with -Og, and says nothing."""
    import logging

    from conv.fuzz import compile_quickly

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if quickly:
        compile_quickly()


def _work(seed: int, quickly: bool, pipe: connection.Connection) -> None:
    """Answer indices with results, until there is none."""
    prepare(quickly)
    while (index := pipe.recv()) is not None:
        pipe.send(run(seed, index))


class _Worker:
    """A process, and the net that it is at."""

    def __init__(self, seed: int, quickly: bool):
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(seed, quickly, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.index: int | None = None
        self.since = 0.0

    def give(self, index: int | None) -> None:
        """Give it the next net; None ends it."""
        self.index, self.since = index, time.monotonic()
        self.pipe.send(index)

    def answer(self) -> Result | None:
        """Its result, or the fault that ended it; None while it works."""
        try:
            if self.pipe.poll():
                return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return Result(
                self.index or 0, [f"CRASH: the process died, status {self.process.exitcode}"]
            )
        if time.monotonic() - self.since > SECONDS:
            self.process.kill()
            self.process.join()
            return Result(self.index or 0, [f"CRASH: no answer within {SECONDS} seconds"])
        return None


def results(seed: int, indices: range, jobs: int, quickly: bool = True) -> Iterator[Result]:
    """Yield the results of nets, computed by so many processes, as they come."""
    left = iter(indices)
    workers: list[_Worker] = []
    for index in [i for _, i in zip(range(jobs), left)]:
        workers.append(_Worker(seed, quickly))
        workers[-1].give(index)
    while workers:
        connection.wait([worker.pipe for worker in workers], timeout=5)
        for worker in list(workers):
            if (result := worker.answer()) is None:
                continue
            yield result
            index = next(left, None)
            if not worker.process.is_alive():
                workers.remove(worker)
                if index is None:
                    continue
                worker = _Worker(seed, quickly)
                workers.append(worker)
            worker.give(index)
            if index is None:
                workers.remove(worker)
                worker.process.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nets", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="index of the first net")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--show", action="store_true", help="print the text of nets that fail")
    parser.add_argument("--why", action="store_true", help="why torch computes what it does")
    parser.add_argument("--shipped", action="store_true", help="compile as for users, not with -Og")
    asked = parser.parse_args()
    os.environ.setdefault("WINOGEN_CALIBRATE", "0")  # the same plans on every machine
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("WINOGEN_PROGRESS", "0")
    wrong = crashes = done = 0
    reasons: collections.Counter[str] = collections.Counter()
    counts = {False: [0, 0], True: [0, 0]}  # by whether a proof is possible: all, left to torch
    indices = range(asked.first, asked.first + asked.nets)
    begin = time.perf_counter()
    for result in results(asked.seed, indices, asked.jobs, not asked.shipped):
        done += 1
        counts[result.opaque][0] += result.convolutions
        counts[result.opaque][1] += result.left
        reasons.update(result.why)
        if result.wrong:
            wrong += 1
            crashes += "CRASH" in result.wrong[0]
            again = f"--seed {asked.seed} --first {result.index} --nets 1 --show"
            print(f"python tests/torch/fuzz_nets.py {again}")
            for what in result.wrong:
                print("  " + what.strip().replace("\n", "\n    "))
            if asked.show:
                print(result.source, flush=True)
        if done % 50 == 0:
            rate = done / (time.perf_counter() - begin)
            print(f"{done} nets, {wrong} wrong, {rate:.1f} a second", file=sys.stderr, flush=True)
    print(f"{done} nets, {wrong} wrong, of which {crashes} ended their process")
    for opaque, words in ((False, "where a proof is possible"), (True, "elsewhere")):
        every, left = counts[opaque]
        share = 100 * (1 - left / every) if every else 0.0
        print(f"  {words}: winogen computes {every - left} of {every} convolutions, {share:.1f} %")
    for reason, count in reasons.most_common(20 if asked.why else 0):
        print(f"  {count:5} by torch: {reason[:160]}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
