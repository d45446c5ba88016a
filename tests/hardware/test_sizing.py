"""Engines for a net: what is worth having, what each costs, and what is refused."""

from collections import Counter

import pytest

from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.hardware import Engine
from winogen.hardware.nets import layers
from winogen.hardware.reading import net_layers
from winogen.hardware.sizing import (
    TILES,
    Demands,
    algorithm_name,
    best_mapping,
    engines,
    front,
    rounding_error,
    sized,
)

NET = [
    Engine(8, 4, 8, 1).mapping((1, 32, 28, 28), (48, 32, 3, 3), padding=1).problem,
    Engine(8, 4, 8, 1).mapping((1, 48, 28, 28), (32, 48, 1, 1)).problem,
]


def test_the_front_has_no_engine_that_another_beats():
    best = front([*NET, NET[0]], Demands(multipliers=128)).engines
    assert [one.seconds for one in best] == sorted(one.seconds for one in best)
    costs = [(one.seconds, one.engine.multipliers, one.storage, one.error) for one in best]
    for one in costs:
        assert not any(all(a <= b for a, b in zip(other, one)) for other in costs if other != one)
    assert {algorithm_name(one.engine) for one in best} >= {"direct", "F(2x2,3x3)"}
    assert max(one.engine.multipliers for one in best) <= 128


def test_a_layer_counts_as_often_as_the_net_has_it():
    engine, demands = Engine(8, 4, 8, 1), Demands(multipliers=256)
    once, twice = (sized(engine, Counter(NET * times), demands) for times in (1, 2))
    assert twice.cycles == 2 * once.cycles and twice.seconds == pytest.approx(2 * once.seconds)
    assert once.utilisation(1e9) == pytest.approx(twice.utilisation(1e9))
    assert once.operands == (10, 12) and once.storage == 512 + 1024 + 4 * 16 * 8


def test_exact_operands_take_more_bytes_and_larger_multipliers():
    engine, deep = Engine(8, 4, 8, 1), NET[:1]
    rounded, exact = (
        sized(engine, Counter(deep), Demands(multipliers=256, exact=exact))
        for exact in (False, True)
    )
    assert rounded.area == 256 and exact.area == 256 * 10 * 12
    weights = 32 * 48 * 16
    assert exact.bytes - rounded.bytes == weights * 12 // 8 - weights
    assert exact.storage == 512 * 10 // 16 + 1024 * 12 // 8 + 4 * 16 * 8
    pointwise = (sized(engine, Counter(NET[1:]), Demands(256, exact=one)) for one in (False, True))
    assert len({one.bytes for one in pointwise}) == 1  # nothing is transformed


def test_a_slow_memory_bounds_the_time():
    engine = Engine(8, 4, 8, 1)
    fast, slow = (
        sized(engine, Counter(NET), Demands(256, bandwidth=bandwidth)) for bandwidth in (1e12, 1e8)
    )
    assert fast.bound_by_memory == 0 and slow.bound_by_memory == 1
    assert slow.seconds == pytest.approx(slow.bytes / 1e8)


def test_the_best_layout_is_taken():
    """Three channels leave most of f_i idle unless pieces or taps are stacked."""
    (problem,) = layers("vgg16")[:1]
    _, mapping, _ = best_mapping(Engine(16, 4, 16, 2), problem, Demands())
    assert mapping.stacked and mapping.cycles < 100352


def test_errors_of_rounded_tiles_are_those_of_the_algebra():
    errors = {tile: rounding_error(*tile, 8) for tile in TILES}
    direct, two, three, four, circle, six = errors.values()
    assert direct < two < circle < three < four < six
    assert direct == pytest.approx(0.0138, rel=0.05) and four == pytest.approx(0.149, rel=0.05)
    assert all(rounding_error(*tile, 10) < error / 3 for tile, error in errors.items())


def test_engines_use_the_multipliers_there_are():
    for budget in (4, 100, 1024):
        some = list(engines(budget))
        assert some and len({*some}) == len(some)
        assert all(one.multipliers <= budget for one in some)
        for T, r, m in TILES:
            mine = [one for one in some if (one.T, one.r, one.m) == (T, r, m)]
            assert bool(mine) == (budget >= T)


def test_exact_engines_whose_sums_are_too_short_multiply_tap_by_tap_and_say_so():
    deep = Engine(8, 4, 8, 1).mapping((1, 256, 8, 8), (8, 256, 3, 3), padding=1).problem
    best = front([deep], Demands(multipliers=128, exact=True))
    assert all(one.error == 0 for one in best.engines)
    assert {*best.refused} == {"F(4x4,3x3)", "F(6x6,3x3)"}
    assert "got 256 channels; allowed: at most 227" in best.refused["F(4x4,3x3)"]
    _, mapping, _ = best_mapping(Engine(4, 6, 4, 1), deep, Demands(exact=True))
    assert not mapping.transformed
    _, mapping, _ = best_mapping(Engine(4, 6, 4, 1), deep, Demands())
    assert mapping.transformed
    wide = Engine(8, 4, 8, 1).mapping((1, 20000, 4, 4), (1, 20000, 3, 3)).problem
    with pytest.raises(Unsupported, match="got 20000 channels"):
        front([wide], Demands(multipliers=64, exact=True))


@pytest.mark.parametrize(
    ("demands", "problem", "message"),
    [
        (Demands(multipliers=3), InvalidValue, "multipliers: got 3; allowed: an int from 4"),
        (Demands(multipliers=8.0), InvalidType, "multipliers: got 8.0"),
        (Demands(sram=0), InvalidValue, "sram: got 0"),
        (Demands(clock=float("nan")), InvalidValue, "clock: got nan"),
        (Demands(bandwidth=-1.0), InvalidValue, "bandwidth: got -1.0"),
        (Demands(bits=1), InvalidValue, "bits: got 1"),
        (Demands(multipliers=64, sram=64), Unsupported, "sram: got 64 bytes"),
    ],
)
def test_refusals(demands, problem, message):
    with pytest.raises(problem, match=message):
        front(NET, demands)


def test_nets_are_read_by_name_and_from_files(tmp_path):
    assert len(net_layers("squeezenet")) == 26  # each as often as the net has it
    file = tmp_path / "layers.json"
    file.write_text('[{"name": "one", "input": [1, 3, 8, 8], "weight": [4, 3, 3, 3]}]')
    assert [one.output_shape for one in net_layers(str(file))] == [(1, 4, 6, 6)]
    with pytest.raises(InvalidValue, match="net: got 'lenet'; allowed: alexnet"):
        net_layers("lenet")
    with pytest.raises(InvalidValue, match="layers: got .*, a transposed layer"):
        net_layers("transposed")
    with pytest.raises(InvalidValue, match="layers: got none"):
        front([], Demands())
