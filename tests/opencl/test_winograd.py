"""Winograd convolution on a device: exact where numbers are, close to float64 for all options."""

import random
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from conv import exact
from opencl import devices
from opencl.problems import Case, case_of, close

from winogen.codegen.devices.render import render
from winogen.codegen.devices.statements import DeviceArray, DeviceWork
from winogen.codegen.transforms import load
from winogen.opencl import counting, cuts
from winogen.opencl.choice import _tiled_error
from winogen.opencl.cuts import Buffers, Parameters
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.tiles import TileGrid
from winogen.opencl.winograd import mcmr_work, pack_filters

# Vectors, stages, chains that end within the channels, and one kernel for all.
CUTS = [
    Parameters(4, 4, 4, (2, 2), depth=4, tiles_in_lanes=True),
    Parameters(2, 4, 2, (4, 2), staged=4, depth=8),
    Parameters(8, 16, 8, (1, 2), staged=8, depth=0, tiles_in_lanes=True),
    Parameters(1, 1, 1, (3, 5), staged=3, depth=6, items=32),
    Parameters(16, 16, 16, (1, 1), depth=16, items=16),
    Parameters(4, 4, 4, items=16, fused=True),
    Parameters(1, 3, 1, items=32, fused=True),
]


def computed(work, arrays):
    """The output of a work, whose workspace and output are full of NaN before."""
    return devices.run(render(work, "opencl"), work, arrays)["output"]


def tiled(case, tile, points=None):
    """The algorithms along the axes of a case."""
    layer = case.problem.layer
    sets = (points, points) if points is None or isinstance(points, str) else points
    return tuple(
        load(m, k, None if s > 1 else p, stride=s)
        for m, k, p, s in zip(tile, layer.kernel, sets, layer.stride)
    )


def allowed(cut, planar):
    """The cut with lanes that divide what is in them."""
    lanes = "tiles" if planar else "filters"
    if getattr(cut, lanes) % cut.vector == 0:
        return cut
    return replace(cut, **{lanes: cut.vector})


def slower(cases, few):
    """Parameters of a test, all but the first few for the thorough run."""
    return [pytest.param(*one, marks=[pytest.mark.thorough] * (i >= few), id=str(i))
            for i, one in enumerate(cases)]  # fmt: skip


# Each cut in one layout, and then in the other.
BOTH = [(cut, exact.LAYOUTS[(i + other) % 2]) for other in (0, 1) for i, cut in enumerate(CUTS)]


@pytest.mark.parametrize("cut, layout", slower(BOTH, len(CUTS)))
def test_integers_are_exact(cut, layout):
    """Tiles F(3x4, 3x2) of points that round nothing, on sizes that no block divides."""
    mode = exact.MODES[CUTS.index(cut) % 4]
    padding = ((2, 1), (1, 3))
    options = dict(padding=padding, padding_mode=mode, groups=2, layout=layout)
    case = Case((10, 7, *exact.KERNEL), (2, 9, 11), added=("add",), activation="relu",
                options=options)  # fmt: skip
    rng, arrays = np.random.default_rng(1), case.arrays(0)
    scale = exact.scale("mcmr")
    arrays = {name: rng.integers(-3, 4, one.shape).astype("f4") for name, one in arrays.items()}
    arrays["weights"] = arrays["weights"] * np.float32(scale)
    transforms = tiled(case, exact.TILE, exact.POINTS)
    cut = allowed(cut, layout == "NCHW")
    work = mcmr_work(case.problem, transforms, cut, bias=True)
    np.testing.assert_array_equal(computed(work, arrays), case.wanted(arrays))


def check_random(seed):
    """A random problem, tile and cut; float64 is no farther off than is predicted."""
    rng, case = random.Random(seed), case_of(seed)
    problem = case.problem
    planar = problem.layer.planar
    tile = tuple(
        1 if k == 1 else rng.choice((2, 3, 4) if max(k, s) < 5 else (2,))
        for k, s in zip(problem.layer.kernel, problem.layer.stride)
    )
    transforms = tiled(case, tile)
    cut = allowed(rng.choice(CUTS), planar)
    tiles, device = TileGrid(problem, *transforms), DeviceInfo()
    if cut.problems(tiles, device):
        cut = replace(cut, fused=False)
    work = mcmr_work(problem, transforms, cut, case.bias)
    buffers = Buffers.of(tiles, cut)
    assert buffers.workspace_bytes == work.workspace_bytes
    arrays = case.arrays(seed)
    depth = 0 if cut.fused else cut.depth
    channels = problem.layer.channels // problem.layer.groups
    error = _tiled_error("float32", channels, transforms, depth)
    # Predicted is the largest error of large layers: of few outputs the largest is smaller.
    close(computed(work, arrays), case.wanted(arrays), 8 * error * max(1, case.largest(arrays)))


@pytest.mark.parametrize("seed", range(6))
def test_random_problems(seed):
    check_random(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 100 + 20 * devices.DRAWS))
@pytest.mark.draws
def test_many_random_problems(seed):
    check_random(seed)


@pytest.mark.parametrize("m, r, tag", [(4, 3, ""), (6, 3, ""), (2, 7, ""), (4, 3, "gaussian"),
                                       (4, 3, "sqrt2"), (2, 3, "_s2")])  # fmt: skip
def test_filters_are_rounded_once(m, r, tag):
    """... as float64 would be, whose sums are rounded once more at the end."""
    transform = (
        load(m, r, stride=2) if tag == "_s2" else load(m, r, name=f"f{m}_{r}_{tag}".strip("_"))
    )
    stride = transform.stride
    case = Case((5, 3, r, r), (1, 20, 20), options=dict(stride=stride))
    tiles = TileGrid(case.problem, transform, transform)
    packed = DeviceArray("packed", (tiles.positions, 1, 4, 6), "float32", "packed")
    work = DeviceWork((pack_filters(tiles, packed, True, 8),), ())
    weights = case.arrays(3)["weights"]
    found = devices.run(render(work, "opencl"), work, {"weights": weights})["packed"]
    g = [[Fraction(float(x)) if not isinstance(x, Fraction) else x for x in row]
         for row in transform.g]  # fmt: skip
    exact_g = np.array([[float(x) for x in row] for row in g])
    wanted = np.einsum("ak,mckq,bq->abcm", exact_g, weights.astype("f8"), exact_g)
    wanted = wanted.reshape(tiles.positions, 1, 3, 5)
    assert (found[:, :, 3:] == 0).all() and (found[..., 5:] == 0).all()
    found = found[:, :, :3, :5]
    step = np.spacing(np.abs(wanted).astype("f4"))
    assert (np.abs(found - wanted) <= 0.501 * step).all()


@pytest.mark.parametrize("layout", exact.LAYOUTS)
@pytest.mark.parametrize("cut", CUTS, ids=range(len(CUTS)))
def test_demands_are_those_of_the_kernels(layout, cut):
    """What is predicted without making kernels is what is counted in them."""
    case = Case((12, 9, 3, 3), (2, 20, 21), bias=False, options=dict(layout=layout))
    cut, device = allowed(cut, layout == "NCHW"), DeviceInfo(vector=4)
    tiles = TileGrid(case.problem, *tiled(case, (4, 2)))
    work = mcmr_work(case.problem, (tiles.height, tiles.width), cut)
    quick, counted = cuts.demands(tiles, cut, device), counting.demands(work, device)
    assert len(quick) == len(counted)
    for one, other in zip(quick, counted):
        assert (one.footprint, one.groups, one.items) == (
            other.footprint, other.groups, other.items)  # fmt: skip
        assert one.operations == pytest.approx(other.operations, rel=0.02)


def test_a_cut_says_what_is_wrong_with_it():
    tiles = TileGrid(Case((8, 8, 3, 3), (1, 9, 9)).problem, load(2, 3), load(2, 3))
    wrong = Parameters(3, 6, 4, (64, 64), staged=2, depth=3, items=512).problems(
        tiles, DeviceInfo()
    )
    assert len(wrong) == 5 and prod(map(len, wrong))
    assert wrong[0] == "tiles are a multiple of vector"
    assert "a group has at most 256 items" in wrong
    much = Parameters(8, 8, 4, (16, 16), staged=64)
    assert much.problems(tiles, DeviceInfo()) == ["a group shares at most 32768 bytes"]
