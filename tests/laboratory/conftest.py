"""A tiny layer, rivals that need no installation, and a document as the benchmark writes it."""

from pathlib import Path

import pytest

from winogen.tuning.layers import BenchLayer
from winogen_lab.peers import Peer

FAKES = Path(__file__).parent / "fakes"


@pytest.fixture
def tiny():
    return BenchLayer.from_dict(
        {
            "name": "tiny",
            "net": "Net",
            "input": [1, 16, 9, 11],
            "weight": [16, 16, 3, 3],
            "padding": 1,
        }
    )


@pytest.fixture
def fakes(monkeypatch):
    """Makes the modules in fakes/ importable by worker processes; name -> Peer."""
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    names = ("rivals", "failing", "dying", "not_finite", "dying_later")
    found = {name: Peer(name, f"fake_{name}:ways", ("numpy",), "numpy") for name in names}
    found["absent"] = Peer("absent", "fake_absent", ("numpy", "no_such_module"), "numpy")
    return found


@pytest.fixture
def document():
    """Two layers, two rivals, one of them failing once; numbers chosen to be checked by hand."""
    from winogen_lab.bench import report

    def layer(name, median_s, peers, **more):
        return {
            "name": name, "net": "", "input": [1, 8, 10, 10], "weight": [16, 8, 3, 3], "stride": 1,
            "padding": 1, "gflop": 0.002, "algorithm": "mcmr", "tile": [4, 6], "rel_error": 2e-6,
            "workspace_bytes": 3 << 20, "packed_weight_bytes": 100, "multiplications": 10**6,
            "median_s": median_s, "best_s": median_s, "cores": 1.0, "preempted": 0.0,
            "fma_peak_gflops": 100.0, "gflops": 0.002 / median_s, "roofline_s": median_s / 2,
            "peers": peers, **more,
        }  # fmt: skip

    def peer(median_s, error=1e-6):
        return {"median_s": median_s, "rel_error": error, "cores": 1.0, "preempted": 0.0}

    layers = [
        layer("first", 1e-5, {"swift": peer(4e-5), "exact": peer(8e-5, 1e-7)}),
        layer("second", 2e-5, {"swift": {"error": "out of luck"}, "exact": peer(2e-5, 3e-7)}),
    ]
    return {
        "machine": {
            "cpu": "Z80", "cores": 2, "isa": "generic", "compiler": "cc 1", "system": "CP/M",
            "threads": 1, "fma_peak_gflops": 100.0, "fma_peak_gflops_range": [90.0, 110.0],
            "fma_peak_gflops_by_threads": {"1": 105.0},
            "read_gbytes_per_s": {"L2": {"bytes": 1 << 20, "gbytes_per_s": 50.0}},
            "extensions": [],
        },
        "settings": {
            "layout": "NCHW", "algorithm": "auto", "tile": None, "rounds": 1, "min_time_s": 0.0,
        },
        "peers": {
            "swift": {"version": "1.2"}, "exact": {"version": "3"},
            "gone": {"absent": "not installed: gone"},
        },
        "yardstick": {
            "layer": {"name": "56x56"}, "direct": {}, "mcmr": {}, "direct_gflops": 95.0,
            "direct_share_of_peak": 0.95, "mcmr_over_direct": 2.5,
        },
        "layers": layers,
        "summary": report.summarize(layers),
    }  # fmt: skip


def net_row(seconds, error=1e-6, largest=None):
    return {"median_s": seconds, "rel_error": error, "max_error": largest or error,
            "peak_rss_bytes": 3 << 20}  # fmt: skip


@pytest.fixture
def nets_document():
    """Three nets, two rivals, ours; numbers chosen to be checked by hand."""
    from winogen_lab.nets import report

    def net(name, share, rows):
        measured = {"name": name, "title": name, "input": [2, 3, 8, 8], "output": [2, 9],
                    "gmac": 1.5, "share_3x3": share, "contestants": rows}  # fmt: skip
        return {**measured, "ratio": report.ratio(measured)}

    torch, mnn, ours, other = "torch", "mnn", "winogen.torch", "winogen.onnx"
    nets = [
        net("dense", 1.0, {torch: net_row(0.8), mnn: net_row(0.4, 1e-3),
                           ours: net_row(0.1, 3e-6, 4e-6), other: net_row(0.2)}),
        net("thin", 0.2, {torch: net_row(0.01), mnn: {"error": "out [of] luck"},
                          ours: net_row(0.04, 4e-6, 2e-6), other: net_row(0.02, 5e-7)}),
        net("lost", 0.9, {torch: net_row(0.01), mnn: net_row(0.02), ours: {"error": "no"},
                          other: {"error": "no"}}),
    ]  # fmt: skip
    names = {name: {"version": "1"} for name in (torch, mnn, ours, other)}
    for measured, seconds, difference in zip(nets, (0.2, 0.02), (0.0, 0.25)):
        row = {**net_row(seconds), "difference": difference}
        measured["beside"] = {"python=p": {ours: row, other: {"error": "no"}}}
    machine = {"cpu": "Z80", "cores": 2, "isa": "generic", "compiler": "cc", "threads": 1,
               "extensions": []}  # fmt: skip
    return {
        "machine": machine,
        "settings": {"rounds": 1, "min_time_s": 0.0},
        "contestants": {**names, "gone": {"absent": "not installed: gone"}},
        "beside": {"python=p": {"winogen": "w", "isa": "avx2", "absent": {}}},
        "nets": nets,
        "summary": report.summarize(nets),
    }
