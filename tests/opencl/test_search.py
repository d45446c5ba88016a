"""The search on a device, and what is kept of it; most of it with times that are made up."""

import json
from dataclasses import replace
from math import prod
from random import Random

import numpy as np
import pytest
from conv import reference
from opencl import devices, test_transposed

from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.opencl import Conv2d, ConvTranspose2d, search, wisdom
from winogen.opencl.choice import choose, direct_candidate, tiled
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.measuring import DeviceMeasuring, sampled
from winogen.opencl.phases import phase_problem
from winogen.opencl.rates import told
from winogen.opencl.search import DeviceSearch, results_at
from winogen.opencl.space import DirectSpace
from winogen.opencl.usual import usual
from winogen.records import Epilogue
from winogen.tasks.results import key_of


def problem(weight=(8, 4, 3, 3), size=(9, 8), layout="NHWC", **options):
    layer = Layer.of(weight, options.pop("dtype", "float32"), layout=layout, **options)
    channels = layer.channels
    shape = (2, *size, channels) if layout == "NHWC" else (2, channels, *size)
    return layer.problem(shape)


CASE = problem((4, 4, 3, 3), (5, 6), padding=1)


@pytest.fixture(autouse=True)
def own_wisdom(monkeypatch, tmp_path):
    monkeypatch.setenv("WINOGEN_WISDOM", str(tmp_path / "wisdom.jsonl"))
    monkeypatch.setenv("WINOGEN_CALIBRATE", "0")
    wisdom.forget()
    yield
    wisdom.forget()


# --- points that are tried where nothing was measured

LAYERS = {
    "usual": CASE,
    "planes": problem((16, 8, 3, 3), (20, 20), layout="NCHW", padding=1),
    "ragged": problem((7, 5, 5, 3), (13, 11), stride=2),
    "depthwise": problem((6, 1, 3, 3), (8, 8), groups=6, padding=1),
    "one output": problem((4, 4, 3, 3), (3, 3)),
}
SMALL_DEVICE = DeviceInfo(group=4, items=(4, 2, 1), largest_buffer=1 << 20, memory_bytes=1 << 22)


@pytest.mark.parametrize("device", [DeviceInfo(), SMALL_DEVICE, DeviceInfo(vector=16, kind="cpu")])
@pytest.mark.parametrize("name", LAYERS)
def test_usual_points_are_valid_and_many(name, device):
    case = LAYERS[name]
    points = DirectSpace(case, device)
    found = usual(points, 16)
    assert found and all(map(points.valid, found))
    assert len({*found}) == len(found) <= 16
    whole = [one for one in found if direct_candidate(case, one, device).workspace_bytes == 0]
    assert whole, "some take no memory"


def test_a_device_without_room_has_no_points():
    assert usual(DirectSpace(CASE, DeviceInfo(memory_bytes=1000)), 16) == []


# --- searches with times that are made up


class Clock:
    """Time passes when something is measured: a second for each."""

    def __init__(self):
        self.now, self.tasks = 0.0, []

    def __call__(self):
        return self.now

    def measure(self, task):
        self.now += 1
        self.tasks.append(task)
        text = json.dumps(task["candidate"], sort_keys=True)
        seconds = Random(text).random() + 0.01
        parameters = task["candidate"]["parameters"]
        if parameters.get("dot"):
            return {"error": "wrong"}
        if parameters.get("unroll"):
            return {"error": "the driver: no"}
        return {"seconds": seconds}


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for module in ("winogen.opencl.search", "winogen.tasks.execute"):
        monkeypatch.setattr(f"{module}.monotonic", made)
    monkeypatch.setattr(DeviceSearch, "_run", lambda self, task: made.measure(task))
    monkeypatch.setattr(search, "rates_of", lambda context: told(DeviceInfo()))
    return made


def searched(seconds, results=None):
    return DeviceSearch(CASE, devices.context(), results)(seconds)


def test_a_search_ends_in_time_and_keeps_what_is_worth_having(clock):
    found = searched(60)
    assert 60 <= clock.now <= 62
    assert 40 < found.tried <= 60
    assert found.front[0].seconds == min(one.seconds for one in found.front)
    assert all(one.measured for one in found.front)
    costs = [(one.seconds, one.workspace_bytes, one.error) for one in found.front]
    for one in costs:
        others = [other for other in costs if other is not one]
        assert not any(all(a <= b for a, b in zip(other, one)) for other in others)
    assert any(one.workspace_bytes == 0 for one in found.front)
    assert found.wrong and not any(
        getattr(one.parameters, "dot", 0) or getattr(one.parameters, "unroll", 0)
        for one in found.front
    )
    efforts = [task["repeats"] for task in clock.tasks]
    assert efforts[:54] == [3] * 54 and {*efforts[54:]} == {6}, "a tenth is for a second look"


def test_a_search_begins_with_usual_points(clock):
    searched(30)
    space = DirectSpace(CASE, DeviceInfo.of(devices.context().devices[0]))
    known = [one.as_values() for one in usual(space, 16)]
    tried = [task["candidate"]["parameters"] for task in clock.tasks[:20]]
    assert sum(one in known for one in tried) >= 8


def test_the_best_are_measured_longer(clock, monkeypatch):
    monkeypatch.setattr(DeviceSearch, "_nearer", lambda self, space: iter(()))
    found = searched(600)
    efforts = [task["repeats"] for task in clock.tasks]
    assert efforts.count(6) == 8 and efforts.count(12) == 4 and efforts.count(24) == 2
    assert found.tried > 100


def test_a_search_goes_on_as_long_as_there_is_time(clock):
    found = searched(240)
    last = [task for task in clock.tasks if task["repeats"] == 24]
    assert len(last) == 2 and 0.9 * 240 <= clock.now <= 241
    assert found.tried > 180


@pytest.mark.thorough
def test_parameters_of_the_best_are_improved_one_by_one(clock):
    few = searched(180)
    more = searched(300)

    def best(found):
        return min(one.seconds for one in found.every if one.algorithm == "direct")

    assert best(more) < best(few)


def test_a_search_that_was_stopped_goes_on_where_it_was(clock, tmp_path):
    file = tmp_path / "measured.jsonl"
    first = results_at(file)
    searched(30, first)
    first.close()
    before = {key_of(task) for task in clock.tasks}
    clock.tasks.clear()
    again = results_at(file)
    assert len(again) == len(before)
    found = searched(30, again)
    again.close()
    assert not before & {key_of(task) for task in clock.tasks}
    assert found.tried > 50


# --- what is measured


def test_results_are_compared_with_the_definition():
    for case in LAYERS.values():
        layer = case.layer
        generator = np.random.default_rng(3)
        x = generator.standard_normal(case.input_shape).astype("float32")
        w = generator.standard_normal(layer.weight_shape).astype("float32")
        places, wanted = sampled(case, x, w)
        ends = [(axis.before, axis.after) for axis in layer.axes]
        whole = reference.convolve(
            x, w, stride=layer.stride, padding=ends, dilation=layer.dilation,
            groups=layer.groups, padding_mode=layer.padding_mode, layout=layer.layout,
        )  # fmt: skip
        assert len(places) > min(100, prod(case.output_shape) // 2)
        np.testing.assert_allclose(wanted, whole.reshape(-1)[places], rtol=1e-12)


@pytest.mark.parametrize("name", test_transposed.LAYERS)
def test_so_are_those_of_transposed_layers(name):
    case = test_transposed.LAYERS[name]
    arrays = {k: v for k, v in case.arrays(2).items() if k in ("input", "weights")}
    places, wanted = sampled(case.problem, *arrays.values())
    plain = case.wanted({**arrays, "bias": np.zeros(1)}, None)
    assert len(places) > min(100, plain.size // 2)
    np.testing.assert_array_equal(wanted, plain.reshape(-1)[places])


def task_of(candidate, repeats=2):
    encoded = {k: v for k, v in wisdom.encoded(candidate).items() if k != "seconds"}
    return {"candidate": encoded, "repeats": repeats}


def test_a_wrong_kernel_has_no_time(monkeypatch):
    context = devices.context()
    device = DeviceInfo.of(context.devices[0])
    candidate = direct_candidate(CASE, usual(DirectSpace(CASE, device), 1)[0], device)
    measuring = DeviceMeasuring(CASE, context)
    assert 0 < measuring(task_of(candidate))["seconds"] < 60
    measuring._samples = measuring._samples[0], 1.05 * measuring._samples[1]
    assert measuring(task_of(candidate)) == {"error": "wrong"}
    odd = replace(candidate.parameters, filters=3)
    assert measuring(task_of(replace(candidate, parameters=odd))) == {"error": "does not apply"}


# --- what is kept


def some_candidates(device):
    points = DirectSpace(CASE, device)
    random = Random(1)
    direct = [direct_candidate(CASE, points.draw(random), device) for _ in range(6)]
    request = Request(algorithm="mcmr", threads=1)
    return direct + tiled(CASE, request, device, told(device))[:6]


def test_candidates_come_back_from_the_file():
    device = DeviceInfo()
    given = [one.measured_as(1e-3 * k) for k, one in enumerate(some_candidates(device), 1)]
    wisdom.add(CASE, device, given, "2026-01-01")
    kept = wisdom.candidates(CASE, device)
    assert [wisdom.encoded(one) for one in kept] == [wisdom.encoded(one) for one in given]
    assert [one.workspace_bytes for one in kept] == [one.workspace_bytes for one in given]
    assert all(one.measured for one in kept)
    other = problem((4, 4, 3, 3), (5, 7), padding=1)
    assert wisdom.candidates(other, device) == []
    assert wisdom.candidates(CASE, replace(device, driver="another")) == []
    later = [given[3]]
    wisdom.add(CASE, device, later, "2026-01-02")
    assert len(wisdom.candidates(CASE, device)) == 1


def test_a_damaged_file_costs_its_lines_only(monkeypatch):
    device = DeviceInfo()
    first = some_candidates(device)[0].measured_as(1e-3)
    wisdom.add(CASE, device, [first], "2026-01-01")
    line = json.loads(wisdom.path().read_text())
    broken = [
        "no JSON",
        json.dumps({**line, "front": []}),
        json.dumps({**line, "front": [{**line["front"][0], "seconds": -1}]}),
        json.dumps({**line, "front": [{**line["front"][0], "algorithm": "magic"}]}),
        json.dumps({**line, "place": {"winogen": "0", "device": 3}}),
    ]
    wisdom.path().write_text("\n".join([*broken, json.dumps(line)]) + "\n")
    wisdom.forget()
    assert len(wisdom.candidates(CASE, device)) == 1
    # What does not apply to the layer is left out.
    line["front"][0]["parameters"]["filters"] = 5
    wisdom.path().write_text(json.dumps(line) + "\n")
    wisdom.forget()
    assert wisdom.candidates(CASE, device) == []
    monkeypatch.setenv("WINOGEN_WISDOM", "0")
    assert wisdom.path() is None and wisdom.candidates(CASE, device) == []


def test_a_limit_of_memory_picks_from_what_was_measured():
    device = DeviceInfo()
    by_memory = sorted(some_candidates(device)[:6], key=lambda one: one.workspace_bytes)
    large = next(one for one in by_memory[::-1] if one.workspace_bytes).measured_as(1e-6)
    small = direct_candidate(CASE, usual(DirectSpace(CASE, device), 1)[0], device).measured_as(2e-6)
    assert small.workspace_bytes == 0
    wisdom.add(CASE, device, [large, small], "2026-01-01")
    known, rates = wisdom.candidates(CASE, device), told(device)
    best, *_ = choose(CASE, Request(algorithm="direct", threads=1), device, rates, known)
    assert best.parameters == large.parameters
    tight = Request(algorithm="direct", threads=1, workspace_limit=large.workspace_bytes - 1)
    best, *_ = choose(CASE, tight, device, rates, known)
    assert best.parameters == small.parameters and best.measured


def test_a_tuned_layer_runs_what_was_measured():
    layer = replace(CASE.layer, epilogue=Epilogue("prelu", add=True))
    found = DeviceSearch(replace(CASE, layer=layer), devices.context())(0.0)
    assert found.tried >= 1 and found.front
    device = DeviceInfo.of(devices.context().devices[0])
    wisdom.add(CASE, device, found.front, "2026-01-01")
    x = np.random.default_rng(0).integers(-8, 9, CASE.input_shape).astype("float32")
    w = np.random.default_rng(1).integers(-8, 9, (4, 4, 3, 3)).astype("float32")
    layer = Conv2d(w, padding=1, layout="NHWC", context=devices.context())
    plan = layer.plan(x.shape)
    assert plan.measured and "measured" in str(plan)
    ends = ((1, 1), (1, 1))
    np.testing.assert_allclose(
        layer(x), reference.convolve(x, w, padding=ends, layout="NHWC"), atol=0.02
    )


def test_a_tuned_transposed_layer():
    case = test_transposed.LAYERS["of a generator"]
    found = DeviceSearch(phase_problem(case.asked), devices.context())(0.0)
    assert found.front and not found.wrong
    device = DeviceInfo.of(devices.context().devices[0])
    wisdom.add(phase_problem(case.asked), device, found.front, "2026-01-01")
    arrays = case.arrays(3)
    layer = ConvTranspose2d(arrays["weights"], arrays["bias"], activation="relu",
                            context=devices.context(), **case.options)  # fmt: skip
    assert layer.plan(case.shape).measured
    np.testing.assert_allclose(layer(arrays["input"], add=arrays["add"]), case.wanted(arrays),
                               atol=0.02)  # fmt: skip
    # Another layer with the same phases is another layer.
    other = phase_problem(replace(case, dilation=(3, 3), ends=((3, 3), (3, 3))).asked)
    assert wisdom.layer_of(other) != wisdom.layer_of(case.problem)
