"""One contestant in a process of its own: prepares a layer, runs it when it is its turn.

`winogen_lab.bench.team` starts it as ``python -m winogen_lab.bench.worker <socket>`` and sends
(command, arguments); every command is answered by ("ok", value) or ("error", message). Interpreters
with another winogen run this file, too, and get the folder of ours besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from winogen.toolchain.limits import Limits

import ctypes
import gc
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np

import winogen

if __name__ == "__main__" and len(sys.argv) > 2:
    # The winogen of another interpreter is measured, by this laboratory. Where an earlier one lacks
    # a module that the laboratory imports, it is found in the folder that follows the socket.
    winogen.__path__.append(sys.argv[2])
    _spec = spec_from_file_location("winogen_lab", Path(__file__).parents[1] / "__init__.py")
    assert _spec and _spec.loader
    sys.modules["winogen_lab"] = winogen_lab = module_from_spec(_spec)
    _spec.loader.exec_module(winogen_lab)

from winogen.tuning.layers import BenchLayer
from winogen_lab.peers import Way

# How long the first estimate of a running time may take, and how few calls it may rest on.
_ESTIMATE_SECONDS, _ESTIMATE_CALLS = 0.03, 4
_PEAK_TRIES = 8
_PROFILE_PEAK = 0.03  # seconds
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Worker:
    """The commands."""

    def __init__(self) -> None:
        self.ways: dict[str, Way] = {}

    def prepare(self, adapter: str, layer: dict, folder: str, threads: int, options: dict) -> dict:
        """Build every way to compute the layer whose x.npy and w.npy are in ``folder``.

        ``adapter``: module:function. Returns way -> {"seconds", "facts"} or {"error"}; the output
        of a way goes to the file named by "output".
        """
        one = BenchLayer.from_dict(layer)
        x, weight = (np.load(Path(folder, f"{name}.npy")) for name in "xw")
        ways = _function(adapter)(one, x, weight, threads, **options)
        return self._build(ways, one.output, folder)

    def about(self, compiles: bool = False) -> dict[str, Any]:
        """Return which winogen this is, and for what it compiles kernels.

        ``compiles``: kernels at hand do not count. Raises CompilerNotFound.
        """
        from winogen.toolchain import find_compiler, host_target

        if compiles:
            find_compiler()
        return {"winogen": str(Path(winogen.__file__).parent), "isa": host_target().name}

    def lack(self, modules: Sequence[str]) -> str | None:
        """Return the first of these modules that is not installed here, or None."""
        return next((name for name in modules if find_spec(name) is None), None)

    def lay_out_net(self, name: str, folder: str) -> dict:
        """Write the files of a net; see `winogen_lab.nets.files`."""
        from winogen_lab.nets.files import lay_out

        return lay_out(name, folder)

    def prepare_net(
        self,
        adapter: str,
        name: str,
        output: Sequence[int],
        folder: str,
        threads: int,
        options: dict,
    ) -> dict:
        """Do the same as `prepare` for a net of `winogen_lab.nets`."""
        from winogen_lab.nets import NETS

        ways = _function(adapter)(NETS[name], Path(folder), threads, **options)
        return self._build(ways, tuple(output), folder)

    def _build(
        self, ways: dict[str, Callable[[], Way]], shape: tuple[int, ...], folder: str
    ) -> dict[str, dict]:
        answers: dict[str, dict] = {}
        for number, (name, build) in enumerate(ways.items()):
            try:
                way = build()
                y = np.asarray(way.output(way.run()))
                if y.shape != shape or y.dtype not in (np.float32, np.float64):
                    raise ValueError(f"gave {y.dtype} {y.shape} for {shape}")
                path = Path(folder, f"y-{os.getpid()}-{number}.npy")
                np.save(path, y)
                answers[name] = {
                    "seconds": _estimate(way),
                    "facts": way.facts,
                    "output": str(path),
                }
                self.ways[name] = way
            except Exception as error:  # whatever a rival raises is its answer
                answers[name] = {"error": describe(error)}
        return answers

    def keep(self, names: Sequence[str]) -> None:
        """Forget all other ways; from here on the peak of the memory is watched."""
        self.ways = {name: self.ways[name] for name in names}
        _give_back_memory()
        with suppress(OSError):
            _RESET.write_text("5")  # Linux: begin a new peak

    def turn(self, name: str, calls: int) -> tuple[list[float], float, float]:
        """Return the seconds of calls, how many cores were busy, and the share of preempted calls.

        The first call finds the caches full of a rival's data and is not counted; nor are calls
        during which the system gave a core to some other program, as long as any are left.
        """
        way = self.ways[name]
        clean: list[float] = []
        preempted: list[float] = []
        way.run()
        begin_all, busy = time.perf_counter(), time.process_time()
        for _ in range(calls):
            switches = _preemptions()
            begin = time.perf_counter()
            way.run()
            seconds = time.perf_counter() - begin
            (clean if _preemptions() == switches else preempted).append(seconds)
        busy = (time.process_time() - busy) / (time.perf_counter() - begin_all)
        return clean or preempted, busy, len(preempted) / calls

    def finish(self) -> int | None:
        """Forget the layer; return the peak of the resident bytes since `keep`, if known."""
        peak = None
        with suppress(OSError, StopIteration, ValueError):
            lines = _STATUS.read_text().splitlines()
            peak = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
        self.ways = {}
        _give_back_memory()
        return peak

    def limits(self, threads: int) -> Limits:
        """Return the `Limits` of this machine."""
        from winogen.toolchain.limits import measure_limits

        return measure_limits(threads, writes=True)

    def fma(self, threads: int, seconds: float) -> float:
        """Return a sample of the FMA peak, GFLOP/s; again if other programs spoiled it."""
        from winogen.toolchain.limits import fma_peak

        best = 0.0
        for _ in range(_PEAK_TRIES):
            switches = _preemptions()
            best = max(best, fma_peak(threads, seconds=seconds))
            if _preemptions() == switches:
                break
        return best

    def nest(self, task: dict) -> Any:
        """Do a task of a search for loop nests; see `winogen_lab.loops.tasks`."""
        from winogen_lab.loops.tasks import work

        return work(task)

    def profile(self, layer: dict, folder: str, options: dict, limits: Limits) -> dict:
        """Return where our time goes, beside the peak at this moment; see `profile.rates`."""
        from winogen_lab.bench.profile import profile, rates

        x, weight = (np.load(Path(folder, f"{name}.npy")) for name in "xw")
        found = profile(BenchLayer.from_dict(layer), x, weight, **options)
        return rates(found, self.fma(limits.threads, _PROFILE_PEAK), limits)


def _function(adapter: str) -> Callable[..., dict[str, Callable[[], Way]]]:
    module, _, function = adapter.partition(":")
    ways: Callable[..., dict[str, Callable[[], Way]]] = getattr(import_module(module), function)
    return ways


def describe(error: BaseException) -> str:
    """Return an exception as one line."""
    text = " ".join(str(error).split())
    if len(text) > 300:
        text = f"{text[:297]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _preemptions() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _estimate(way: Way) -> float:
    best, end, calls = float("inf"), time.perf_counter() + _ESTIMATE_SECONDS, 0
    while calls < _ESTIMATE_CALLS or time.perf_counter() < end:
        begin = time.perf_counter()
        way.run()
        best = min(best, time.perf_counter() - begin)
        calls += 1
    return best


def _give_back_memory() -> None:
    gc.collect()
    ours = sys.modules.get("winogen.conv.memory")  # a rival's process has none
    if ours:
        ours.release()
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _die_with_parent() -> None:
    """A stopped process would otherwise outlive a benchmark that was killed."""
    with suppress(OSError, AttributeError):
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main() -> None:
    """Answer commands until the benchmark closes the socket."""
    from multiprocessing.connection import Connection

    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the benchmark, which ends us
    connection, worker = Connection(int(sys.argv[1])), Worker()
    with suppress(EOFError, ConnectionError):
        while True:
            command, arguments = connection.recv()
            try:
                answer = ("ok", getattr(worker, command)(*arguments))
            except Exception as error:  # the benchmark decides what becomes of it
                answer = ("error", describe(error))
            connection.send(answer)


if __name__ == "__main__":
    main()
