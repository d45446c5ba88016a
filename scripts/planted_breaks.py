"""Break the code on purpose, in a copy of it, and see that the tests which should notice do.

    .venv/bin/python scripts/planted_breaks.py              # all, a few minutes
    .venv/bin/python scripts/planted_breaks.py atomic page  # those with such words in their names

Each break is one replacement in one file, and names the tests that must fail by it. They must pass
without it, too: they run once in the copy as it is. Exit status 1: a break that no test noticed.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Break:
    """A mistake that somebody could make: ``old`` in ``file`` becomes ``new``."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]  # arguments of pytest


BREAKS = (
    Break(
        "errors of layers are said to reach no output",
        "winogen/graph/promise.py",
        "found[name] = float(np.sqrt(squares.max(initial=0.0)))",
        "found[name] = 0.0",
        ("tests/torch/test_output_tolerance.py", "-k", "as_promised"),
    ),
    Break(
        "a template's macro is renamed",
        "csrc/parts/transform_function.h.j2",
        "macro transform_function(",
        "macro function_of_transform(",
        ("tests/codegen/test_transforms.py", "-k", "custom_points_are_derived"),
    ),
    Break(
        "a bundle lacks the kernels that its model runs",
        "winogen/toolchain/bundling.py",
        "for build in (*used(), meters.build_of(host_target())):",
        "for build in (*list(used())[1:], meters.build_of(host_target())):",
        ("tests/onnx/test_bundle.py", "-k", "test_a_service_without", "-m", "thorough"),
    ),
    Break(
        "an import is missing",
        "winogen/codegen/shipped.py",
        "import json\n",
        "",
        ("tests/conv/test_planner.py::test_auto_fits_the_tile_to_the_map",),
    ),
    Break(
        "C for microcontrollers has an atomic",
        "csrc/parts/scheduler.h.j2",
        "return left->begin + left->taken++;",
        "return left->begin + __atomic_fetch_add(&left->taken, 1, __ATOMIC_RELAXED);",
        ("tests/codegen/test_cortex_m.py::test_a_layer_links_without_atomics",),
    ),
    Break(
        "a tolerance is ten times what was asked for",
        "winogen/conv/tolerance.py",
        "return cls(asked, wanted / MARGIN,",
        "return cls(asked, wanted * 10,",
        ("tests/conv/test_planner.py", "-k", "tolerance"),
    ),
    Break(
        "a plan outlives the choices that it was made of",
        "winogen/conv/execute.py",
        'environment.value("WINOGEN_WISDOM"),',
        '"",',
        ("tests/conv/test_wisdom.py::test_the_environment_is_part_of_what_is_remembered",),
    ),
    Break(
        "a header of a transform has a wrong sign",
        "transforms/f4_3.h",
        "v[1] = t0 - k45_32 * t5;",
        "v[1] = t0 + k45_32 * t5;",
        ("tests/codegen/test_transforms_c.py", "-k", "bit_for_bit or plain_c"),
    ),
    Break(
        "a page's command is misspelt",
        "README.md",
        "winogen generate --input",
        "winogen generate --inputs",
        ("tests/docs/test_pages.py", "-k", "c_and_shell and README"),
    ),
    Break(
        "sizes of an operator are off by one",
        "winogen/graph/ops/base.py",
        "out.append(room // step + 1)",
        "out.append(-(-room // step) + 1)",
        ("tests/graph/test_maps.py", "-k", "every_size"),
    ),
    Break(
        "an activation computes something else than it means",
        "winogen/records/activations.py",
        'c="y * (choose(y > 3, 6 + (vec){0}, relu_of(y + 3)) / 6)"',
        'c="y * (choose(y > 3, 6 + (vec){0}, relu_of(y + 3)) / 5)"',
        ("tests/conv/test_activations.py", "-k", "few_units and hardswish"),
    ),
)


def copied(folder: Path) -> None:
    """Copy all files that git knows."""
    words = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached"]
    names = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())


def status_of(folder: Path, tests: tuple[str, ...]) -> int:
    """Return pytest's exit status: 0 all passed, 1 some failed, 2 an import failed, 5 no tests."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True
    ).returncode


def main(words: list[str]) -> int:
    """Plant each break whose name has one of the words; return the exit status."""
    unseen = 0
    with TemporaryDirectory(prefix="winogen-breaks-") as name:
        folder = Path(name)
        copied(folder)
        for one in BREAKS:
            if words and not any(word in one.name for word in words):
                continue
            path = folder / one.file
            whole = path.read_text("utf-8")
            if whole.count(one.old) != 1:
                verdict = f"NOT PLANTED: {whole.count(one.old)} times in {one.file}"
            elif before := status_of(folder, one.tests):
                verdict = f"FAILS WITHOUT IT, status {before}"
            else:
                path.write_text(whole.replace(one.old, one.new), "utf-8")
                broken = status_of(folder, one.tests) in (1, 2, 4)
                path.write_text(whole, "utf-8")
                verdict = "noticed" if broken else "NOT NOTICED"
            unseen += verdict != "noticed"
            print(f"{verdict}: {one.name} ({' '.join(one.tests)})", flush=True)
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
