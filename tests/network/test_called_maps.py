"""What lies between convolutions: a folder has the C of what its network calls, and no more."""

import subprocess
from itertools import combinations

import pytest
from network.conftest import STRICT
from network.test_network import net_of

from winogen.codegen.functions import FUNCTIONS
from winogen.codegen.templates import environment
from winogen.network import generate
from winogen.toolchain import find_compiler

KINDS = """
    MAX_POOL REPEAT SPREAD_CHANNELS SPREAD_PIXELS AVERAGE_POOL AVERAGE_POOL_COUNTED GLOBAL_AVERAGE
    POINT SUM PRODUCT SHUFFLE GROUP_NORM LAYER_NORM SOFTMAX
""".split()


def compiles(folder, kinds, turns, shared=False):
    """Compile the C of some kinds of maps; a function that nobody calls is a warning."""
    known = {
        "kinds": kinds, "turns": turns, "shared": shared, "lays": False,
        "name": "net", "NAME": "NET", "command": "x", "reals": ["float"], "functions": FUNCTIONS,
    }  # fmt: skip
    for file in ("maps.c", "maps.h"):
        text = environment().get_template(f"network/{file}.j2").render(known)
        assert "\n\n\n" not in text, text
        (folder / f"net_{file}").write_text(text)
    words = [*find_compiler().command, "-std=c11", "-fsyntax-only", *STRICT.split(), "-Wshadow"]
    done = subprocess.run([*words, "net_maps.c"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, (kinds, done.stderr)


def test_each_kind_of_map_compiles_alone(tmp_path):
    for shared in (False, True):
        for kind in KINDS:
            compiles(tmp_path, {kind}, kind == "SUM", shared)
        compiles(tmp_path, set(), True, shared)


@pytest.mark.thorough
def test_kinds_of_maps_compile_in_pairs(tmp_path):
    for pair in combinations(KINDS, 2):
        compiles(tmp_path, set(pair), False)


def test_a_network_has_the_maps_that_it_calls():
    net = net_of()
    shuffled = net.node("DepthToSpace", net.conv("x", 3, 12), blocksize=2, mode="CRD")
    files = generate(net.model(shuffled, shape=[1, 3, 6, 8]), isa="generic", algorithm="direct")
    text = files.contents["net_maps.c"].decode()
    assert "spread_float" in text
    assert not any(name in text for name in ("pool", "softmax", "norm", "join", "lay_map"))
