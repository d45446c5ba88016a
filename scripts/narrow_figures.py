"""Networks within the error of the rival that is fastest at its own defaults, which may narrow.

    python scripts/narrow_figures.py                     # seven nets, one thread
    python scripts/narrow_figures.py resnet50 --peers openvino,mnn --results FOLDER

Where a CPU multiplies bfloat16, OpenVINO does so without being asked. First rivals run alone, at
their defaults; then all take turns, ours optimized with `output_tolerance=` the relative L2 error
of the fastest rival. `scripts/output_errors.py` tries whether such promises hold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from winogen.progress import telling
from winogen.toolchain.machine_file import cpu_name
from winogen_lab.bench.report import geometric_mean
from winogen_lab.nets import chosen_nets, report
from winogen_lab.nets.runner import NetSettings, run_nets
from winogen_lab.peers import OUR_NETS, chosen

USUAL = "vgg16 resnet18 resnet50 mobilenet-v2 dncnn unet rrdb".split()
LEAST = 1e-5  # a rival that does not narrow needs none of this
HEADS = "net", "rival", "its ms", "its error", *OUR_NETS, "error", "gain"


def main() -> None:
    """Print a row for each net, and the geometric mean."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("nets", nargs="*", default=USUAL)
    parser.add_argument("--peers", default="torch,onnxruntime,openvino,mnn")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--results", type=Path, help="a folder for a document of each net")
    asked = parser.parse_args()
    rivals = chosen(asked.peers, "net", lambda text: print(text, file=sys.stderr))
    usual = {"threads": asked.threads, "rivals": rivals}
    print(f"{cpu_name()}, {asked.threads} thread(s)\n")
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}", flush=True)
    gains = []
    for net in chosen_nets(asked.nets):
        with telling("measuring") as say:
            # A tolerance that nobody of ours is asked to keep: it makes rivals narrow.
            alone = NetSettings(ours=(), rounds=2, within={"tolerance": 1.0}, **usual)
            first = run_nets([net], alone, say)["nets"][0]
            error = first["contestants"][report.fastest(first, ours=False)]["rel_error"]
            within = {"output_tolerance": max(error, LEAST)}
            document = run_nets(
                [net], NetSettings(rounds=asked.rounds, within=within, **usual), say
            )
        if asked.results:
            asked.results.mkdir(parents=True, exist_ok=True)
            report.save(document, asked.results / f"{net.name}.json")
        found = document["nets"][0]
        rows, their = found["contestants"], report.fastest(found, ours=False)
        best = report.fastest(found, ours=True)
        ms = {
            name: f"{1e3 * row['median_s']:.3g}" for name, row in rows.items() if "median_s" in row
        }
        cells = [net.name, their, ms[their], f"{rows[their]['rel_error']:.1e}"]
        cells += [ms.get(name, "-") for name in OUR_NETS]
        print(
            f"| {' | '.join(cells)} | {rows[best]['rel_error']:.1e} | {found['ratio']:.2f} |",
            flush=True,
        )
        gains.append(found["ratio"])
    print(f"\ngeometric mean: {geometric_mean(gains):.2f}")


if __name__ == "__main__":
    main()
