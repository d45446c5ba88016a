"""A layer as a crate of Rust: it builds without warnings, its own test passes, and can fail."""

import os
import re
import shutil
import subprocess

import pytest

from winogen.conv.standalone import standalone
from winogen.conv.standalone_quantized import standalone_quantized
from winogen.conv.standalone_transposed import standalone_transposed
from winogen.errors import InvalidValue, Unsupported
from winogen.toolchain import host_target

ISA = host_target().name
# Between them every kind of array, of padding, of layout and of numbers.
LAYERS = {
    "tiles": (standalone, (1, 16, 21, 19), (24, 16, 3, 3),
              {"padding": 1, "algorithm": "mcmr", "isa": ISA, "add": True, "activation": "relu"}),
    "all_arrays": (standalone, (2, 13, 14, 8), (12, 4, 3, 3),
                   {"padding": 1, "stride": 2, "groups": 2, "layout": "NHWC", "dtype": "float16",
                    "add": True, "add_after": True, "activation": ("prelu", [0.5] * 12)}),
    "Doubles": (standalone, (1, 5, 9, 8), (6, 5, 3, 3),
                {"padding": 2, "padding_mode": "reflect", "dtype": "float64",
                 "activation": "gelu"}),
    "signal": (standalone, (2, 8, 50), (12, 8, 5),
               {"padding": 2, "dilation": 2, "layout": "NCW", "dtype": "bfloat16",
                "padding_mode": "circular", "activation": ("clip", -1, float("inf"))}),
    "volume": (standalone, (1, 4, 5, 8, 7), (6, 4, 3, 3, 3),
               {"padding": 1, "layout": "NCDHW", "padding_mode": "replicate", "add_after": True,
                "activation": "hardswish"}),
    "upwards": (standalone_transposed, (1, 8, 6, 7), (8, 3, 2, 2),
                {"stride": 3, "groups": 2, "add": True, "activation": "silu"}),
    "bytes": (standalone_quantized, (1, 16, 9, 11), (24, 16, 3, 3),
              {"padding": 1, "x_zero": 100, "y_zero": 128, "isa": ISA}),
    "sums": (standalone_quantized, (2, 8, 9, 6), (8, 3, 3, 3),
             {"groups": 2, "x_dtype": "int8", "x_zero": -5, "y_dtype": "int32",
              "activation": "relu", "layout": "NHWC"}),
    "reals": (standalone_quantized, (1, 6, 8, 9), (8, 6, 3, 3),
              {"padding": 1, "y_dtype": "int8", "y_zero": -9, "y_scale": 0.05, "add": True,
               "add_dtype": "int8", "add_scale": 0.02, "add_zero": 3, "activation": "tanh"}),
}  # fmt: skip
cargo_needed = pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")


def written(folder, layer, name=None, **options):
    """Write the crate of one of `LAYERS`; return its files."""
    write, shape, weight, given = LAYERS[layer]
    options = {"isa": "generic", **given, **options}
    files = write(shape, weight, name=name or layer, host="rust", **options)
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    return files


def cargo(folder, *words, **environment):
    """What cargo did: builds are small, and below the test's own folder."""
    given = {
        **os.environ,
        "CARGO_TARGET_DIR": str(folder / "target"),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "RUST_BACKTRACE": "0",
        **environment,
    }
    command = ["cargo", words[0], "--offline", *words[1:]]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True)


@pytest.fixture(scope="module")
def crates(tmp_path_factory):
    """A workspace of cargo's, with a crate for each layer."""
    folder = tmp_path_factory.mktemp("crates")
    for layer in LAYERS:
        written(folder / layer, layer)
    (folder / "Cargo.toml").write_text(
        f'[workspace]\nresolver = "2"\nmembers = {list(LAYERS)}\n'.replace("'", '"')
    )
    return folder


@cargo_needed
@pytest.mark.thorough
def test_every_crate_passes_its_own_test(crates):
    done = cargo(crates, "test", "--workspace", RUSTFLAGS="-D warnings")
    assert done.returncode == 0, done.stdout + done.stderr
    ran = re.findall(r"test result: ok. (\d+) passed", done.stdout)
    assert sorted(map(int, ran)) == sorted([0, 4, 1] * len(LAYERS))  # lib, tests/, docs


@cargo_needed
@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("cargo-clippy") is None, reason="needs clippy")
def test_clippy_finds_nothing(crates):
    done = cargo(crates, "clippy", "--workspace", "--all-targets", "--", "-D", "warnings")
    assert done.returncode == 0, done.stderr


WRONG = {
    "padding": ("tests/direct.rs", "BEFORE: [isize; RANK] = [1, 1]",
                "BEFORE: [isize; RANK] = [0, 1]"),
    "weights": ("src/lib.rs", "weight.as_ptr()", "weight[1..].as_ptr().cast()"),
    "a part": ("src/lib.rs", "for part in parts {", "for part in parts.skip(1) {"),
}  # fmt: skip


@cargo_needed
def test_a_wrong_layer_fails_and_nothing_dangles(tmp_path):
    files = written(tmp_path, "tiles")
    for what, (file, right, wrong) in WRONG.items():
        assert right in files[file], what
        (tmp_path / file).write_text(files[file].replace(right, wrong))
        done = cargo(tmp_path, "test", "--test", "direct")
        assert "test result: FAILED" in done.stdout, f"{what}: {done.stdout}{done.stderr}"
        (tmp_path / file).write_text(files[file])

    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/dangling.rs").write_text(DANGLING)
    done = cargo(tmp_path, "check", "--example", "dangling")
    errors = re.findall(r"^error\[(E\d+)\]", done.stderr, re.MULTILINE)
    assert sorted(errors) == ["E0382", "E0499", "E0505"], done.stderr


# A part twice, a workspace for two calls, memory that is freed while parts need it.
DANGLING = """\
use tiles::{Layer, Workspace};

fn main() {
    let layer = Layer::new(&[0.0; tiles::WEIGHT_NUMBERS]).unwrap();
    let (input, add) = (vec![0.0; tiles::INPUT_NUMBERS], vec![0.0; tiles::OUTPUT_NUMBERS]);
    let (mut one, mut other) = (add.clone(), add.clone());
    let mut workspace = Workspace::new(2).unwrap();

    let mut parts = layer.parts(&input, None, &add, &mut one, &mut workspace).unwrap();
    let part = parts.next().unwrap();
    part.run();
    part.run();

    let more = layer.parts(&input, None, &add, &mut other, &mut workspace).unwrap();
    drop(one);
    parts.chain(more).for_each(|part| part.run());
}
"""


@cargo_needed
def test_without_a_compiler_the_build_says_what_to_do(tmp_path):
    written(tmp_path, "sums")
    missing = str(tmp_path / "no-compiler")
    for variable, words in (("CC", "gcc or clang; install one"), ("AR", "ar, of binutils or LLVM")):
        done = cargo(tmp_path, "build", **{variable: missing})
        assert done.returncode != 0
        assert f"{variable}: got {missing}, which does not run" in done.stderr
        assert f"allowed: {words}" in done.stderr
    done = cargo(tmp_path, "build", CC="false")
    assert "`false -O3" in done.stderr and "failed, exit status: 1" in done.stderr


@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_unsafe_says_why_and_nothing_is_needed(tmp_path, layer):
    files = written(tmp_path, layer, "tiny")
    names = ["Cargo.toml", "build.rs", "src/lib.rs", "c/tiny.c", "c/tiny.h", "tests/direct.rs"]
    assert list(files) == names
    assert "dependencies" not in files["Cargo.toml"]
    for file in ("build.rs", "tests/direct.rs"):
        assert "unsafe" not in files[file]
    lines = [line.strip() for line in files["src/lib.rs"].splitlines()]
    unsafe = [place for place, line in enumerate(lines) if re.search(r"\bunsafe\b", line)]
    assert len(unsafe) == 10
    for place in unsafe:
        before = [line for line in lines[max(0, place - 2) : place] if line.startswith("//")]
        assert before, lines[place]
    assert sum(line.startswith("// SAFETY: ") for line in lines) == len(unsafe)


@pytest.mark.parametrize("name", ["self", "gen", "std", "direct", "f32", "int", "_", "a" * 65])
def test_names_that_rust_needs_are_refused(name):
    with pytest.raises(InvalidValue, match=f"name: got ('{name}'|65 letters)"):
        standalone((1, 3, 9, 8), (5, 3, 3, 3), name=name, host="rust", isa="generic")


def test_what_has_no_std_is_refused():
    with pytest.raises(Unsupported, match="isa: got 'cortex-m7'; allowed: CPUs with Rust's std"):
        standalone((1, 3, 9, 8), (5, 3, 3, 3), host="rust", isa="cortex-m7")
