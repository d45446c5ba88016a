"""What stages do, counted by hand for one kernel of each kind."""

from dataclasses import replace

from kernels.samples import work_for

from winogen import kernels
from winogen.kernels import assign
from winogen.records import TARGETS

AVX512 = TARGETS["avx512"]


def demands_of(work, **cut):
    work = replace(assign(work), **cut)
    return work, kernels.named(work.variant).demands(work)


def moved(demand):
    """What -> bytes, reading and writing apart."""
    found = {}
    for move in demand.moves:
        key = move.what, "w" if move.writes else "r"
        found[key] = found.get(key, 0) + move.bytes
    return found


def test_regions_block_by_block():
    """14x14 outputs of 32 channels and 48 filters by F(4, 3) x F(2, 3), in 2 x 2 blocks."""
    work = work_for((48, 32, 3, 3), (1, 14, 14), "mcmr", AVX512, tile=(4, 2), padding=1)
    work, (into, multiply, output) = demands_of(work, block=(2, 4))
    h, w = work.transforms
    tiles, places = 4 * 7, 6 * 4
    assert work.grid == (2, 2) and work.items == 4
    assert multiply.products == tiles * places * 32 * 48
    assert multiply.steps == tiles * places * 32 * 3 and multiply.instructions == 0
    u = places * 32 * 48 * 4
    assert moved(multiply)["U", "r"] == 4 * u
    assert moved(multiply)["Y", "w"] == moved(output)["Y", "r"] == tiles * places * 48 * 4
    assert moved(into)["V", "w"] == tiles * places * 32 * 4
    # Blocks overlap by two rows and two columns, and nothing beyond the image is read.
    assert moved(into)["input", "r"] == (14 + 2) * (14 + 2) * 32 * 4
    # Columns of 2 x 4 blocks: 7 tiles of 2 and twice 2 more; transposed with four rows each.
    rows, cols = 4 * 4 + 2 * 2, 7 * 2 + 2 * 2
    columns = 4 * cols * h.instructions[0] + tiles * 6 * w.instructions[0]
    assert into.instructions == 2 * (columns + 4 * rows * cols)
    after = 4 * h.instructions[2] + 4 * w.instructions[2]
    assert output.instructions == 3 * tiles * (after + 4 * 8)
    assert moved(output)["output", "w"] == 14 * 14 * 48 * 4


def test_rows_of_one_dimension_meet_every_tap():
    work = work_for((16, 16, 3, 3), (1, 9, 8), "winograd1d", AVX512, tile=(1, 4), padding=1)
    _, (into, multiply, _) = demands_of(work, block=(9, 2))
    assert multiply.products == 9 * 2 * 6 * 3 * 16 * 16
    assert moved(into)["V", "w"] == (9 + 2) * 2 * 6 * 16 * 4  # two rows more than outputs


def test_a_product_reads_one_number_for_each_row_and_vector():
    work = work_for((64, 32, 3, 3), (1, 16, 16), "mcmr", AVX512, tile=(4, 4), padding=1)
    work = replace(assign(work), block=(2, 4))
    tuning = replace(work.tuning, rows=4, vectors=2, chains=1)
    _, multiply, _ = kernels.named("mcmr").demands(replace(work, tuning=tuning))
    assert multiply.loads == multiply.steps * (4 + 2) / (4 * 2)


def test_few_channels_keep_their_sums():
    work = work_for((32, 3, 3, 3), (1, 16, 64), "winograd2d", AVX512, tile=(4, 4), padding=1)
    _, (into, multiply, output) = demands_of(work, block=(2, 16))
    tiles, places = 4 * 16, 36
    assert multiply.products == tiles * places * 3 * 32
    assert multiply.steps == multiply.products / 16 and multiply.instructions > 0
    assert moved(into)["V", "w"] == tiles * places * 3 * 4
    assert moved(multiply)["V", "r"] == 16 * tiles * places * 3 * 4  # two filters at a time
    assert output == type(output)() and moved(multiply)["output", "w"] == 16 * 64 * 32 * 4


def test_direct_reads_filters_for_each_block():
    work = work_for((32, 16, 3, 3), (2, 8, 8), "direct", AVX512, padding=1)
    _, (into, multiply, output) = demands_of(work, block=(4, 8))
    taps = 3 * (3 * 8 - 2) * 8  # of all outputs of an image: two rows meet zeros only
    assert multiply.products == 2 * taps * 16 * 32 and multiply.steps == multiply.products / 16
    assert moved(multiply)["U", "r"] == 4 * (9 * 16 * 32 * 4)
    assert moved(into)["input", "r"] == 2 * (8 + 2) * 8 * 16 * 4
    assert moved(output) == {("output", "w"): 2 * 64 * 32 * 4}


def test_idle_lanes_are_steps_without_products():
    work = work_for((24, 16, 3, 3), (1, 8, 8), "direct", AVX512, padding=1)
    _, (_, multiply, _) = demands_of(work, block=(8, 8))
    assert multiply.products == 0.75 * 16 * multiply.steps
