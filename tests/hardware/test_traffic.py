"""Bytes that schedules move, with an SRAM of finite size; and the layers of the nets by name."""

import pytest

from winogen.errors import InvalidValue, Unsupported
from winogen.hardware import Engine
from winogen.hardware.nets import NETS, layers
from winogen.hardware.schedules import SCHEDULES
from winogen.hardware.traffic import SRAMS, best_traffic, seconds, traffic

ENGINE = Engine(16, 4, 16, 2)


def mapping(channels=512, size=28, filters=512, kernel=3, **options):
    shapes = (1, channels, size, size), (filters, channels, kernel, kernel)
    return ENGINE.mapping(*shapes, padding=kernel // 2, **options)


def test_with_room_for_everything_each_byte_is_moved_once():
    layer = mapping()
    for schedule in SCHEDULES:
        moved = traffic(layer, schedule, 64 << 20)
        assert moved.inputs == 512 * 28 * 28
        assert moved.weights == 512 * 512 * 4**2
        assert moved.outputs == 512 * 28**2 and moved.sums == 0


@pytest.mark.parametrize("layer", [mapping(), mapping(64, 56, 64), mapping(256, 56, 512, 1)])
def test_outputs_stationary_moves_no_partial_sums_and_least_others_most(layer):
    for sram in (128 << 10, 256 << 10, *SRAMS.values()):
        moved = {name: traffic(layer, name, sram) for name in SCHEDULES}
        assert moved["OS"].sums == 0
        assert moved["IS"].inputs <= min(moved["OS"].inputs, moved["WS"].inputs)
        assert best_traffic(layer, sram).bytes == min(one.bytes for one in moved.values())
        for one in moved.values():
            assert one.block.maps <= sram // 2 and one.block.weights <= sram // 2


def test_a_larger_sram_never_moves_more():
    for schedule in SCHEDULES:
        found = [traffic(mapping(), schedule, 64 << k << 10).bytes for k in range(9)]
        assert found == sorted(found, reverse=True) and found[0] > 4 * found[-1]


def test_small_srams_make_schedules_swap_sums():
    moved = traffic(mapping(), "WS", 256 << 10)
    again = moved.block.alpha - 1
    assert again > 0 and moved.sums == 2 * again * 512 * 14 * 14 * 16 * 4


def test_signals_are_cut_along_their_length():
    signal = ENGINE.mapping((1, 1, 160000), (1, 1, 401))
    moved = traffic(signal, "OS", 1 << 16)
    assert moved.block.sigma > 1 and moved.weights == 134 * 16
    assert moved.inputs == 160000 + (moved.block.sigma - 1) * 400


def test_groups_that_stand_side_by_side_move_their_own_filters_only():
    depthwise = ENGINE.mapping((1, 64, 28, 28), (64, 1, 3, 3), padding=1, groups=64)
    moved = traffic(depthwise, "OS", 1 << 20)
    assert moved.weights == 64 * 16 and moved.outputs == 64 * 28**2


def test_a_layer_takes_what_binds_it():
    layer = mapping()
    moved = best_traffic(layer, 1 << 20)
    assert seconds(layer, moved, 1e9, 1e15) == (layer.cycles + 24) / 1e9
    assert seconds(layer, moved, 1e9, 1e9) == moved.bytes / 1e9


def test_an_sram_too_small_for_a_block_is_refused():
    with pytest.raises(Unsupported, match="sram: got 1024 bytes; allowed: at least 35840,"):
        traffic(mapping(), "OS", 1024)
    assert traffic(mapping(), "OS", 35840)
    with pytest.raises(Unsupported):
        traffic(mapping(), "OS", 35838)


def test_multiplications_of_the_nets():
    products = {name: sum(one.direct_multiplications for one in layers(name)) for name in NETS}
    known = {"alexnet": 1.08, "vgg16": 15.35, "googlenet": 1.58, "inception-v3": 5.71,
             "resnet50": 4.09, "squeezenet": 0.35}  # fmt: skip
    assert {name: round(count / 1e9, 2) for name, count in products.items()} == known
    assert [len(layers(name)) for name in NETS] == [5, 13, 57, 94, 53, 26]
    connected = sum(one.direct_multiplications for one in layers("vgg16", connected=True))
    assert round(connected / 1e9, 2) == 15.47
    with pytest.raises(InvalidValue, match="net: got 'lenet'"):
        layers("lenet")


def test_ideal_times_lie_below_those_of_the_source():
    medium, large = ENGINE, Engine(16, 4, 32, 2)
    found = [
        sum(engine.mapping(layer).seconds(1e9) for layer in layers(net)) * 1e3
        for engine, net in ((medium, "alexnet"), (large, "alexnet"), (medium, "googlenet"),
                            (medium, "resnet50"))
    ]  # fmt: skip
    assert [round(one, 2) for one in found] == [0.44, 0.22, 0.67, 1.97]
    assert all(ours < printed for ours, printed in zip(found, (0.8, 0.65, 0.96, 5.41)))
