"""Strings of loops: buffers beside those of a walk, caches beside slower ones, and the command."""

import json
from collections import OrderedDict
from itertools import groupby, pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import InvalidValue
from winogen_lab.loops.blocking import (
    AXES,
    OPERANDS,
    Sizes,
    behind,
    buffers,
    hilbert_curve,
    parse,
    simulated,
    turn,
)
from winogen_lab.loops.caches import Cache, misses, parse_caches

LAYER = Sizes(2, 6, 5, (3, 2), (7, 8), stride=(1, 2))
STRINGS = (
    "Fw Fh X Y C K N",
    "Fw Fh X=3 Y=2 C=4 K=2 C K X Y N",
    "X=4 K=2 Fw Fh C K=4 X Y=3 K Y N",
    "K C=2 Fw X=2 Fh X=5 C N Y X",
)


def walk(loops, layer):
    """The products in their order: turns of all loops, outermost first, and what they use."""

    def inside(left, whole, turns):
        if not left:
            low = {axis: start for axis, (start, _) in whole.items()}
            row, column = (low[y] * stride + low[f]
                           for y, f, stride in zip("YX", ("Fh", "Fw"), layer.stride))  # fmt: skip
            yield (
                turns,
                {
                    "inputs": (low["N"], low["C"], row, column),
                    "weights": (low["K"], low["C"], low["Fh"], low["Fw"]),
                    "outputs": (low["N"], low["K"], low["Y"], low["X"]),
                },
            )
            return
        loop, (start, end) = left[0], whole[left[0].axis]
        for at in range(start, end, loop.step):
            piece = {**whole, loop.axis: (at, min(at + loop.step, end))}
            yield from inside(left[1:], piece, (*turns, at))

    extents = {axis: (0, size) for axis, size in layer.extents.items()}
    return list(inside(loops[::-1], extents, ()))


@pytest.mark.parametrize("text", STRINGS)
def test_buffers_are_filled_as_by_a_walk(text):
    """A buffer keeps what its loops touch until a loop outside takes something else."""
    loops = parse(text, LAYER)
    products = walk(loops, LAYER)
    assert len(products) == LAYER.products
    reused = {"inputs": ("K",), "weights": ("X", "Y", "N"), "outputs": ("C", "Fw", "Fh")}
    accesses = dict.fromkeys(OPERANDS, LAYER.products)
    for one in buffers(loops, LAYER):
        outside = loops.index(one.loop)
        while outside < len(loops) and loops[outside].axis in reused[one.operand]:
            outside += 1
        words, largest, shown = 0, 0, len(loops) - outside
        for _, run in groupby(products, lambda one, shown=shown: one[0][:shown]):
            touched = len({used[one.operand] for _, used in run})
            words, largest = words + touched, max(largest, touched)
        assert (one.words, one.bytes) == (words, largest * 4), one
        twice = 2 if one.operand == "outputs" else 1
        assert one.rate == pytest.approx(twice * accesses[one.operand] / words)
        accesses[one.operand] = words


def test_a_simulated_cache_gets_as_much():
    """Lines of one number in a cache without sets. Where a turn just fits, a part of it stays: the
    simulation lies between what is said of half and of twice the room, within an eighth.
    """
    exact = cases = 0
    for text in STRINGS:
        loops = parse(text, LAYER)
        for place in range(2, len(loops) + 1):
            room = turn(loops[:place], LAYER) * 3 // 2 // 4 * 4
            seen = simulated(loops, LAYER, [Cache(room, 0, line=4)], "NHWC")[0]
            less, here, more = (behind(loops, LAYER, room * by // 2) for by in (1, 2, 4))
            for name in OPERANDS:
                assert 0.88 * more[name] <= seen[name] <= 1.12 * less[name], (text, place, name)
                cases += 1
                exact += here[name] == pytest.approx(seen[name], rel=0.02)
    assert cases > 100 and exact >= 0.8 * cases


def test_lines_of_packed_operands():
    layer = Sizes(1, 64, 64, (3, 3), (12, 12))
    loops = parse("Fw Fh X=4 Y=4 C=16 K=16 C K X Y", layer)
    caches = parse_caches("32K:8,1M:16")
    for seen, cache in zip(simulated(loops, layer, caches), caches):
        assert seen == pytest.approx(behind(loops, layer, cache.bytes), rel=0.1)


def test_hilberts_curve_goes_to_neighbours():
    for side in (2, 8):
        places = hilbert_curve(side, side)
        assert len({*places}) == side * side
        assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in pairwise(places))


@pytest.mark.thorough
def test_tiles_along_hilberts_curve():
    """All of the layer once; and what tiles share stays in a cache that holds no row of them."""
    layer = Sizes(1, 16, 8, (5, 5), (64, 62))
    loops = parse("Fw Fh X=4 Y=4 C K X Y", layer)
    caches = [Cache(32 << 10, 0), Cache(1 << 20, 16)]
    plain, curved = (simulated(loops, layer, caches, hilbert=by) for by in (False, True))
    assert plain[1] == curved[1]
    assert curved[0]["inputs"] < 0.8 * plain[0]["inputs"]
    assert curved[0]["weights"] == plain[0]["weights"]
    with pytest.raises(InvalidValue, match="hilbert: got Y K; allowed: X and Y"):
        simulated(parse("Fw Fh C X Y K", layer), layer, caches, hilbert=True)


def test_lru_as_a_dictionary_has_it():
    source = np.random.default_rng(0)
    addresses = source.integers(0, 1 << 14, 20_000)
    sets, ways = 8, 4
    kept, missed = [OrderedDict() for _ in range(sets)], 0
    for line in addresses // 64:
        here = kept[line % sets]
        if line in here:
            here.move_to_end(line)
            continue
        missed += 1
        here[line] = True
        if len(here) > ways:
            here.popitem(last=False)
    assert misses([Cache(sets * ways * 64, ways)], addresses) == [missed]


def lines(text):
    return np.array([ord(letter) * 64 for letter in text])


def test_srrip_keeps_what_was_used_twice():
    """The figure of the paper: a1 a2 a2 a1, a scan of four, a1 a2, in one set of four ways."""
    stream = lines("abbawxyzab")
    assert misses([Cache(256, 4)], stream) == [8]
    assert misses([Cache(256, 4, "srrip")], stream) == [6]


def drrip(addresses, sets, ways):
    """The published rules, a set at a time."""
    tags, ages = [[None] * ways for _ in range(sets)], [[3] * ways for _ in range(sets)]
    apart, select, rare, missed = max(sets // 32, 4), 511, 0, 0
    for line in (int(address) // 64 for address in addresses):
        at = line % sets
        if line in tags[at]:
            ages[at][tags[at].index(line)] = 0
            continue
        missed += 1
        while None not in tags[at] and 3 not in ages[at]:
            ages[at] = [age + 1 for age in ages[at]]
        way = tags[at].index(None) if None in tags[at] else ages[at].index(3)
        bimodal = select >= 512
        if at % apart == 0:
            bimodal, select = False, min(select + 1, 1023)
        elif at % apart == apart - 1:
            bimodal, select = True, max(select - 1, 0)
        rare += bimodal
        tags[at][way], ages[at][way] = line, 3 if bimodal and rare % 32 else 2
    return missed


@pytest.mark.parametrize("span", [1 << 13, 1 << 15, 3 << 14])
def test_drrip_as_the_rules_say(span):
    source = np.random.default_rng(span)
    scan = np.tile(np.arange(0, span, 64), 6)
    stream = np.where(source.random(len(scan)) < 0.7, scan, source.integers(0, span, len(scan)))
    cache = Cache(1 << 14, 4, "drrip")
    assert misses([cache], stream) == [drrip(stream, cache.sets, 4)]


def test_drrip_keeps_a_part_of_what_is_too_large():
    """LRU drops every line of a scan before it comes again; small sets are safe with both."""
    large, small = (np.tile(np.arange(0, size, 64), 40) for size in (3 << 14, 1 << 14))
    kept = {name: misses([Cache(1 << 15, 8, name)], large)[0] for name in ("lru", "drrip")}
    assert kept["lru"] == len(large) and kept["drrip"] < 0.7 * len(large)
    for name in ("lru", "drrip"):
        assert misses([Cache(1 << 15, 8, name)], small) == [len(small) // 40]


@pytest.mark.parametrize(
    "text, message",
    [
        ("Fw Q", "string: got 'Q'"),
        ("Fw Fh X=9 Y C K N", "string: got 'X=9'; allowed: from 1, what is inside, to 8"),
        ("Fw Fh X=4 X=2 Y C K N", "allowed: from 4"),
        ("Fw Fh X=4 Y C K N", "string: got 4 of 8 along X; allowed: another X"),
    ],
)
def test_strings_that_are_refused(text, message):
    with pytest.raises(InvalidValue, match=message):
        parse(text, LAYER)


@pytest.mark.parametrize(
    "text, message",
    [
        ("32", "caches: got 32 bytes"),
        ("32K:8:fifo", "policy: got 'fifo'; allowed: lru"),
        ("2K:8:drrip", "4 sets with drrip"),
        ("big", "caches: got 'big'"),
        ("32K:8:lru:1", "caches: got '32K:8:lru:1'"),
        ("", "caches: got ''"),
    ],
)
def test_caches_that_are_refused(text, message):
    with pytest.raises(InvalidValue, match=message):
        parse_caches(text)


LAB = ("lab", "blocking", "Fw Fh X=4 Y=4 C=16 K=16 C K X Y")
SHAPES = ("--input", "1,32,12,12", "--weight", "32,32,3,3", "--padding", "1")


def blocking(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def test_the_command():
    found = blocking(*LAB, *SHAPES, "--caches", "32K:8,64K:8:drrip", "--simulate", "--json")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert [one["name"] for one in document["buffers"]][:3] == ["OB0", "KB0", "OB1"]
    first, second = document["caches"]
    assert first["simulated"] == pytest.approx(first["by_turns"], rel=0.25)
    assert second["policy"] == "drrip" and second["lam"] > 100
    shown = blocking(*LAB, *SHAPES)
    assert "re-fetch" in shown.stdout and "KB1" in shown.stdout


def test_without_a_string_it_is_the_one_of_the_rule():
    found = blocking("lab", "blocking", *SHAPES, "--isa", "avx2", "--json")
    assert found.exit_code == 0, found.output
    words = json.loads(found.stdout)["string"].split()
    assert words[:2] == ["X=4", "K=24"] or words[0].startswith("X="), words
    assert {word.split("=")[0] for word in words} >= set(AXES) - {"N"}


def test_groups_are_refused():
    found = blocking(*LAB, "--input", "1,32,12,12", "--weight", "32,16,3,3")
    assert found.exit_code and "channels" in found.output
