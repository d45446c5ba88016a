"""What nets ask for, and the tables and figures of the thesis by the model."""

import pytest

from winogen.errors import InvalidValue
from winogen.hardware import Engine, figures
from winogen.hardware.events import fill_and_drain
from winogen.hardware.nets import NETS, layers
from winogen.hardware.work import DATAFLOWS, ENERGY, intensities, kind, reuse, watts, words, work


def layer(*sizes, **options):
    return Engine(8, 4, 8, 1).mapping(*sizes, **options).problem


def test_a_net_of_two_layers_is_counted():
    conv = layer((1, 2, 6, 6), (4, 2, 3, 3))
    connected = layer((1, 64, 1, 1), (10, 64, 1, 1))
    net = work([conv, conv, connected])
    assert (net.convolutions, net.connected) == (2, 1)
    assert net.products == 2 * 16 * 4 * 2 * 9 + 640
    assert net.weights == 2 * 72 + 640 and net.activations == 2 * 64 + 10
    assert net.shares == net.product_shares == {"3x3": 1.0} and net.small == 1
    assert net.millijoules("int8") == pytest.approx(net.products * 0.23e-9)
    assert words(conv) == (72, 72, 64)


def test_kinds_of_layers():
    assert kind(layer((1, 4, 8, 8), (4, 1, 3, 3), groups=4)) == "depthwise"
    assert kind(layer((1, 4, 8, 8), (4, 2, 3, 3), groups=2)) == "3x3"
    assert kind(layer((1, 4, 8, 8), (4, 4, 1, 7))) == "other"
    depthwise, pointwise = (
        layer((1, 64, 28, 28), (64, 1, 3, 3), groups=64, padding=1),
        layer((1, 64, 28, 28), (64, 64, 1, 1)),
    )
    found = intensities([depthwise, pointwise])
    assert found["depthwise"][0] < 9 < found["1x1"][0]


def test_shares_of_the_nets_add_up():
    for name in NETS:
        net = work(layers(name, connected=True))
        assert sum(net.shares.values()) == pytest.approx(1)
        assert sum(net.product_shares.values()) == pytest.approx(1)
    googlenet = work(layers("googlenet"))
    assert round(googlenet.shares["1x1"], 2) == 0.65 and round(googlenet.small, 2) == 0.82


def test_energy_of_memory():
    assert ENERGY["DRAM"] == 640 and watts(1e9, 30) == pytest.approx(19.2)
    assert watts(1e9, 30, "SRAM") == pytest.approx(0.15)


def test_row_stationary_moves_no_word_for_each_product():
    one = layer((1, 64, 56, 56), (64, 64, 3, 3), padding=1)
    found = {name: reuse(one, name) for name in DATAFLOWS}
    assert [min(row) for row in found.values()] == [1, 1, 1, 9]
    assert found["IS"].inputs == 64 * 9 and found["OS"].sums == 64 * 9
    assert found["WS"].weights == 56 * 56
    halved = layer((1, 64, 56, 56), (64, 64, 3, 3), padding=1, stride=2)
    assert reuse(halved, "IS").inputs == 64 * 9 / 4 and reuse(halved, "RS").inputs == 9 / 4
    with pytest.raises(InvalidValue, match="dataflow: got 'NS'"):
        reuse(one, "NS")


@pytest.mark.parametrize("engine", figures.BUFFERED, ids=str)
def test_hold_buffers_of_eight_engines(engine):
    assert engine.input_buffer == 4 * engine.f_i * 4**2 * engine.L
    assert engine.filter_buffer == engine.f_i * 4**2 * engine.f_o


def test_hold_buffers_in_bytes():
    found = [(one.input_buffer, one.filter_buffer) for one in figures.BUFFERED]
    assert found == [(512, 1024), (1024, 1024), (512, 2048), (1024, 2048),
                     (1024, 2048), (2048, 2048), (1024, 4096), (2048, 4096)]  # fmt: skip


def test_peaks_round_to_those_printed():
    for name, printed in figures.TABLE_6_3.items():
        assert int(figures.ENGINES[name].peak(1e9) / 1e12) == printed


def test_ideal_times_are_a_bound_below_those_printed():
    for row in figures.TABLE_6_2:
        ideal = figures.milliseconds(row.net, figures.ENGINES[row.engine])
        assert ideal < row.ms and (row.nvdla is None or row.ms < row.nvdla)
    ideal = [
        figures.milliseconds(row.net, figures.ENGINES[row.engine]) for row in figures.TABLE_6_2
    ]
    assert [round(one, 2) for one in ideal] == [0.44, 0.22, 0.67, 1.97]


def test_utilisation_layer_by_layer():
    for net in figures.NETS:
        rows = figures.utilisations(net, figures.MEDIUM)
        assert sum(row.times for row in rows) == len(layers(net))
        ms = sum(row.times * row.cycles for row in rows) / 1e6
        assert ms == pytest.approx(figures.milliseconds(net, figures.MEDIUM))
        assert figures.milliseconds(net, figures.MEDIUM, "auto") <= ms
    first = figures.utilisations("alexnet", figures.MEDIUM)[0]
    assert first.name == "227x227, 3 to 96, 11x11/4" and round(first.busy, 2) == 0.19


def test_schedules_differ_where_sums_are_swapped():
    busy = figures.by_schedule("alexnet", figures.LARGE)
    assert busy["OS"] > busy["WS"] > busy["IS"]
    larger = figures.by_sram("alexnet")
    assert larger["S"] == busy["OS"] <= larger["M"] <= larger["L"]
    unlimited = figures.by_schedule("alexnet", figures.LARGE, 1 << 34, 1e15)
    assert len({*unlimited.values()}) == 1
    some = figures.mappings("alexnet", figures.LARGE)
    around, busy = sum(sum(fill_and_drain(one)) for one in some), sum(one.cycles for one in some)
    ideal = figures.means(some).cycles * busy / (around + busy)
    assert unlimited["OS"] == pytest.approx(ideal)
