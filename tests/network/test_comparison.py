"""What is generated runs beside its model before anybody gets it, and is refused if it differs."""

import re
from pathlib import Path

import onnx
import pytest
from network.test_bytes import quantized
from network.test_network import chain, net_of
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import InvalidType, VerificationError
from winogen.network import generate, trial, writing
from winogen.network.bytes_writing import ByteWriter
from winogen.network.float_writing import FloatWriter
from winogen.network.writing import Files
from winogen.toolchain import find_compiler

pytestmark = pytest.mark.compares


def with_norm():
    net = net_of()
    scales = net.constant(net.weights(4)), net.constant(net.weights(4))
    y = net.node("InstanceNormalization", net.conv("x", 3, 4), *scales, epsilon=1e-5)
    return net.model(y, shape=[1, 3, 9, 8])


def residual(folder, blocks, filters=8, size=12):
    """Residual blocks of codes: a step more or less in one moves all behind it."""
    net, shape = net_of(), (1, 3, size, size)
    y = net.conv("x", 3, filters)
    for _ in range(blocks):
        z = net.conv(net.node("Relu", net.conv(y, filters, filters)), filters, filters)
        y = net.node("Add", y, z)
    return quantized(net.model(net.conv(y, filters, 3), shape=list(shape)), shape, folder)


def test_it_runs_beside_its_model_on_this_cpu():
    files = generate(chain())
    assert files.comparison == (
        "compared with the model, compiled here: right on random numbers, large numbers, small "
        "numbers, zeros of both signs, infinities and NaN"
    )
    assert files.comparison in str(files)


def test_for_another_cpu_an_emulator_runs_it():
    other = trial.ELSEWHERE["neon"]
    if other.lacking(other.runner[0]):
        pytest.skip("needs a compiler and an emulator of ARM")
    comparison = generate(chain(), isa="neon").comparison
    assert comparison.startswith("compared with the model, run by qemu-aarch64: right on random")


def test_where_nothing_runs_it_the_same_network_for_any_cpu_is_run(monkeypatch):
    monkeypatch.setattr(trial, "ELSEWHERE", {})
    comparison = generate(chain(), isa="armv7").comparison
    assert comparison.startswith(
        "compared with the model, as the same network for any CPU, since no CPU with armv7 is here"
    )


def test_without_a_compiler_it_is_not_compared_and_says_so(monkeypatch):
    monkeypatch.setattr(trial, "mode", lambda: "off")
    said = "not compared with the model: WINOGEN_COMPILE=off"
    assert generate(chain()).comparison == said
    assert generate(chain(), check=False).comparison == "not compared with the model"
    with pytest.raises(InvalidType, match="check: got int; allowed: True or False"):
        generate(chain(), check=1)


def larger(text):
    return re.sub(r"(?<=_NUMBERS )\d+", lambda found: str(int(found[0]) + 8), text)


# What may go wrong: the file it shows in, what is written there, and what is said of it.
BREAKS = {
    "weights": ("weights.c", lambda t: t.replace("e-01f", "e+00f"), "differs from the model"),
    "order of weights": (
        "weights.c",
        lambda t: re.sub(r"(-?\d\S+f), (-?\d\S+f)", r"\2, \1", t, count=1),
        "differs from the model",
    ),
    "template": ("00.c", lambda t: t.replace("(v < l", "(v > l"), "differs from the model"),
    "padding": ("00.c", lambda t: t.replace(".pad_top = 1", ".pad_top = 0"), "differs"),
    "stale plan": (".c", lambda t: re.sub(r"AT\((\d+)\)", "AT(256)", t, count=1), "differ|ends by"),
    "arena": (".h", lambda t: re.sub(r"(ARENA_BYTES) \d+", r"\1 64", t), "beside|ends by|differ"),
    "size": (".h", larger, "bytes for it; the model has"),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_what_differs_is_refused_with_the_name_of_the_output(kind, monkeypatch):
    end, change, said = BREAKS[kind]
    whole, was_broken = FloatWriter.files, []

    def broken(self):
        files = whole(self)
        name = f"net_{end}" if end[0] != "." else f"net{end}"
        changed = change(files[name].decode())
        was_broken.append(changed != files[name].decode())
        return files | {name: changed.encode()}

    monkeypatch.setattr(FloatWriter, "files", broken)
    with pytest.raises((VerificationError, trial.CompileFailed), match=said):
        generate(chain(), isa="generic")
    assert was_broken[0]  # beginnings of the network, written later, may lack what breaks


def test_the_first_node_that_differs_is_named(monkeypatch):
    whole = FloatWriter.files

    def broken(self):
        return {name: d.replace(b"(v < l", b"(v > l") for name, d in whole(self).items()}

    net = net_of()
    y = net.node("Relu", net.conv(net.conv("x", 3, 6), 6, 6), name="cut off")
    model = net.model(net.conv(net.conv(y, 6, 4), 4, 4), shape=[1, 3, 8, 9])
    monkeypatch.setattr(FloatWriter, "files", broken)
    with pytest.raises(
        VerificationError, match=r"the first node that differs is cut off \(Relu\)$"
    ):
        generate(model, isa="generic")


def test_small_numbers_show_an_epsilon_in_the_wrong_place(monkeypatch):
    whole = FloatWriter.files

    def broken(self):
        pattern = rb"(?<=\.epsilon = )[^,}\n ]+"
        return {n: re.sub(pattern, b"1e-9f", data) for n, data in whole(self).items()}

    model = with_norm()
    assert "small numbers" in generate(model, isa="generic").comparison
    monkeypatch.setattr(FloatWriter, "files", broken)
    with pytest.raises(VerificationError, match="on small numbers"):
        generate(model, isa="generic")


def test_a_refused_network_is_not_there(monkeypatch, tmp_path):
    def refuse(*_):
        raise VerificationError("output y: the C differs")

    monkeypatch.setattr(writing, "compared", refuse)
    onnx.save(chain(), tmp_path / "model.onnx")
    words = ["generate", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "net")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 2 and "output y: the C differs" in run.output
    assert not (tmp_path / "net").exists()
    run = CliRunner().invoke(app, [*words, "--no-check"])
    assert run.exit_code == 0 and "not compared with the model" in run.stdout


def test_a_folder_is_there_as_a_whole_or_not_at_all(monkeypatch, tmp_path):
    files = Files({"a.c": b"1", "b.c": b"2"}, 0, 0, 0, None, 0, 0)
    write = Path.write_bytes

    def full(path, data):
        if path.name == "b.c":
            raise OSError(28, "No space left on device", str(path))
        return write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space"):
            files.write(tmp_path / "some" / "net")
    assert not list(tmp_path.glob("some/*"))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "mine.txt").write_text("mine")
    assert files.write(tmp_path / "net") == [tmp_path / "net" / name for name in ("a.c", "b.c")]
    assert sorted(path.name for path in tmp_path.glob("net/*")) == ["a.c", "b.c", "mine.txt"]
    with pytest.raises(NotADirectoryError, match="mine.txt/x'$"):
        files.write(tmp_path / "net" / "mine.txt" / "x")


def test_codes_are_compared_too(monkeypatch, tmp_path):
    model = residual(tmp_path, 1)
    assert "compiled here: right on random numbers" in generate(model).comparison
    whole = ByteWriter.files

    def broken(self):
        return {n: d.replace(b".y_zero = ", b".y_zero = 9 + ") for n, d in whole(self).items()}

    monkeypatch.setattr(ByteWriter, "files", broken)
    with pytest.raises(VerificationError, match="output .*: the C compiled here differs"):
        generate(model)


@pytest.mark.thorough
def test_a_deep_quantized_network_is_right_by_its_own_test(tmp_path, make):
    model = residual(tmp_path, 8, filters=32, size=32)
    files = generate(model)
    assert "right on" in files.comparison
    folder = tmp_path / "net"
    files.write(folder)
    printed = make(folder, "test", flags="-O1")
    assert ": right" in printed and "on average" in printed
    assert "on average" in (folder / "README.md").read_text()
    for path in folder.glob("net*.c"):
        path.write_text(path.read_text().replace(".y_zero = ", ".y_zero = 3 + "))
    with pytest.raises(AssertionError, match="WRONG"):
        make(folder, "test", flags="-O1")


def test_an_object_is_compiled_once_whatever_its_name(tmp_path, monkeypatch):
    ran, finished = [], trial._finished

    def noted(words, folder):
        ran.append(words)
        return finished(words, folder)

    def made(source):
        (name,) = runner.objects(tmp_path, [source])
        return (tmp_path / name).read_bytes()

    monkeypatch.setattr(trial, "_MADE", {})
    monkeypatch.setattr(trial, "_finished", noted)
    runner = trial.Runner(tuple(find_compiler().command), (), (), (), "")
    for source in ("one.c", "two.c"):
        text = f'/* What\n * differs: {source}. */\n#include "n.h"\nint one(void) {{ return N; }}\n'
        (tmp_path / source).write_text(text)
    (tmp_path / "n.h").write_text("enum { N = 1 };\n")
    before = made("one.c")
    assert made("two.c") == before and len(ran) == 1
    (tmp_path / "n.h").write_text("enum { N = 2 };\n")  # which both include
    assert made("two.c") != before and len(ran) == 2
