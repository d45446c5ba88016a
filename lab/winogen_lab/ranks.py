"""How good a trained net stays if one layer alone has a low rank: Maji's Figures 3.5 and 3.6.

By singular values of the filters alone; fitted to what the layer gets, as layers of `winogen
compress` are; and, beside them, with filters pruned until as many products are left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from winogen.columns import aligned
from winogen.columns import fitted as within
from winogen.conv.arguments import choice
from winogen.lowrank.building import ModelWalk, factored, fitted
from winogen.lowrank.cutting import Wanted, best_cut
from winogen.lowrank.form import FIRSTS, Form
from winogen.lowrank.searching import outputs
from winogen.lowrank.sites import Net, StagedWeights
from winogen_lab.low_rank import exported, with_weights
from winogen_lab.low_rank_times import largest_filters
from winogen_lab.nets.word_nets import judged_nets, subject

WAYS = ("plain", "fitted", "pruned")


def ranks_up_to(full: int) -> list[int]:
    """Return the ranks that are tried, denser where they are low, and the full one.

    >>> ranks_up_to(20)
    [1, 2, 3, 4, 6, 8, 12, 16, 20]
    """
    some = {part << shift for part in (2, 3) for shift in range(full.bit_length())}
    return sorted(rank for rank in some | {1, full} if rank <= full)


def measure(name: str, step: Callable[[int, int, str], None] | None = None) -> dict[str, Any]:
    """Return the quality of a net and the error of its outputs, by layer, rank and `WAYS`.

    ``name``: of `winogen_lab.nets.word_nets`. All other layers are as they were. Errors are
    relative to the norm of the outputs. Raises InvalidValue, NotInstalled, MissingPackage.
    """
    choice("net", name, judged_nets())
    net = subject(name)
    samples, test = ([{"x": x[None]} for x in some] for some in (net.calibration, net.test))
    model = Net(exported(net.module, net.calibration[:1]), samples)
    exact = np.concatenate(outputs(model, model.proto, test)[0])

    def judged(proto: Any) -> tuple[float, float]:
        y = np.concatenate(outputs(model, proto, test)[0])
        return float(net.judge(y)), float(np.linalg.norm(y - exact) / np.linalg.norm(exact))

    sites = [site for site in model.sites if site.splits]
    walk = ModelWalk(model, samples, [site.place for site in sites])
    layers = []
    for number, (site, _) in enumerate(zip(sites, walk.stops())):
        if step:
            step(number, len(sites), site.name)
        inputs = walk.of(site.input)
        walk.run([model.nodes[site.place]], site.place + 1)
        seen = factored(site, inputs)
        forms = tuple(Form.of(site.layer, first) for first in FIRSTS)
        rows = []
        for rank in ranks_up_to(seen.form.full_rank):
            cut = best_cut(site.layer, forms, site.weight, None, Wanted(rank), None)
            stages = (
                StagedWeights(site.layer, cut.form, cut.first, cut.second, site.bias),
                fitted(site, seen, rank, inputs, walk.of(site.output)),
            )
            compression = seen.form.compression(rank)
            pruned = np.zeros_like(site.weight)
            kept = largest_filters(site.weight, site.layer.groups, compression)
            pruned[kept] = site.weight[kept]
            protos = [model.with_stages({site.place: one}) for one in stages]
            found = [judged(one) for one in (*protos, with_weights(model, {site.place: pruned}))]
            quality, error = (dict(zip(WAYS, column)) for column in zip(*found))
            rows.append({
                "rank": rank, "filters": len(kept), "compression": compression,
                "residual": cut.residual, "quality": quality, "error": error,
            })  # fmt: skip
        layers.append({"name": site.name, "weight": list(site.weight.shape), "rows": rows})
    return {"kind": "ranks", "net": name, "title": net.title, "unit": net.unit,
            "test": len(test), "quality": float(net.judge(exact)), "layers": layers}  # fmt: skip


def table(found: dict[str, Any]) -> str:
    """Return what was measured for people to read."""
    unit = found["unit"]
    lines = [["", "", "", unit, *[""] * (len(WAYS) - 1), "error", *[""] * (len(WAYS) - 1)],
             ["layer", "rank", "fewer", *WAYS, *WAYS]]  # fmt: skip
    for layer in found["layers"]:
        name = f"{layer['name']} {'x'.join(map(str, layer['weight']))}"
        for row in layer["rows"]:
            quality = [f"{row['quality'][way]:.1f}" for way in WAYS]
            errors = [f"{row['error'][way]:.3f}" for way in WAYS]
            lines.append([name, f"{row['rank']}", f"{row['compression']:.2f}x", *quality, *errors])
            name = ""
    return "\n".join([
        f"{found['title']}: {found['quality']:.1f} {unit} as it was",
        "",
        *aligned(within(lines, 1), left=1),
        "",
        "One layer alone has so many times fewer products. plain: a rank, by singular values;",
        "fitted: to what it gets, too; pruned: the filters of the largest magnitudes, one or more.",
        "error: of the net's outputs, relative to them.",
    ])  # fmt: skip


def save_plot(found: dict[str, Any], path: str | Path) -> None:
    """Draw quality against rank, a line for each layer; the suffix of ``path`` is the format."""
    from winogen.charts import COLORS, GREY, MARKERS, add_legend, new_panels, save

    figure, panels = new_panels(len(WAYS), 12.0, 4.8)
    for axes, way in zip(panels, WAYS):
        for place, layer in enumerate(found["layers"]):
            points = [(row["rank"], row["quality"][way]) for row in layer["rows"]]
            axes.plot(
                *zip(*points), color=COLORS[place % len(COLORS)], label=layer["name"],
                marker=MARKERS[place // len(COLORS) % len(MARKERS)], markersize=4,
            )  # fmt: skip
        axes.axhline(found["quality"], color=GREY, linestyle="--", label="as it was")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("rank of one layer alone" + " with as many products" * (way == "pruned"))
        axes.set_title(way, loc="left", fontsize=10)
    panels[0].set_ylabel(f"{found['net']}, {found['unit']}")
    add_legend(figure, 3)  # names of layers are long
    save(figure, path)
