"""A network as a module for browsers and node: what it computes, on threads, and refuses."""

import json
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from network.test_bytes import mobile, quantized
from network.test_network import chain, net_of, small
from reports.test_page_in_browser import BROWSER, OPTIONS

from winogen.errors import CompilerNotFound, InvalidValue, Unsupported
from winogen.network import generate
from winogen.network.web import WebBuilder
from winogen_lab.nets import NETS
from winogen_lab.nets.ncnn_files import read
from winogen_lab.nets.ncnn_graph import NumpyNet

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")
RELAXED = "--experimental-wasm-relaxed-simd"  # of node 20
# Runs the network of a folder as `jobs` say, and tells everything as JSON.
CALLS = """
export async function calls(load, x, jobs) {
    const told = [];
    for (const threads of jobs) {
        const net = await load({ threads });
        net.run(x.map((v) => 2 * v));    // what one run leaves is not for the next
        const y = net.run(x);
        const outputs = y instanceof Float32Array ? [y] : Object.values(y);
        const numbers = outputs.map((one) => [...one]);
        told.push({ threads: net.threads, relaxed: net.relaxed, outputs: numbers });
        net.close();
    }
    return told;
}
"""
IN_NODE = """
import { readFileSync } from "node:fs";
import { load } from "./net.js";
import { calls } from "./calls.js";
const x = new Float32Array(JSON.parse(readFileSync("x.json")));
console.log(JSON.stringify(await calls(load, x, JSON.parse(process.argv[2]))));
"""
PAGE = """<!DOCTYPE html><script type="module">
import { load } from "./net.js";
import { calls } from "./calls.js";
let told;
try {
    const x = new Float32Array(await (await fetch("x.json")).json());
    told = await calls(load, x, [1, 3]);
} catch (problem) {
    told = String(problem);
}
await fetch("told", { method: "POST", body: JSON.stringify(told) });
</script>"""

# Shows the page of the example, and tells what it says and draws.
AROUND = """<!DOCTYPE html><iframe id="frame" src="index.html"></iframe><script type="module">
const found = (id) => frame.contentDocument?.getElementById(id);
while (!/ ms, /.test(found("said")?.textContent)) await new Promise((go) => setTimeout(go, 100));
const pixels = (one) => [...one.getContext("2d").getImageData(0, 0, one.width, one.height).data];
const [before, after] = ["before", "after"].map((id) => pixels(found(id)));
const body = JSON.stringify({ said: found("said").textContent, before, after });
await fetch("told", { method: "POST", body });
</script>"""


def wide():
    """Layers of real widths: Winograd tiles, a skip, and one that only moves numbers."""
    net = net_of()
    a = net.node("Relu", net.conv("x", 3, 32))
    b = net.node("Add", a, net.conv(net.node("Relu", net.conv(a, 32, 64)), 64, 32))
    y = net.node("DepthToSpace", net.conv(b, 32, 12), blocksize=2, mode="CRD")
    return net.model(y, shape=[1, 3, 24, 20])


def needed():
    if NODE is None:
        pytest.skip("no node here: apt-get install nodejs")
    try:
        WebBuilder()
    except CompilerNotFound as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A network for the web, an input and what calls it."""
    needed()
    return written(wide(), tmp_path_factory.mktemp("web"))


def written(model, folder):
    generate(model, host="web", check=False).write(folder)
    shape = [one.dim_value for one in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    (folder / "x.json").write_text(json.dumps([float(v) for v in x.ravel()]))
    (folder / "calls.js").write_text(CALLS)
    (folder / "run.js").write_text(IN_NODE)
    (folder / "page.html").write_text(PAGE)
    session = ort.InferenceSession(model.SerializeToString())
    wanted = session.run(None, {model.graph.input[0].name: x})
    (folder / "y.json").write_text(json.dumps([y.ravel().tolist() for y in wanted]))
    return folder


def in_node(folder, jobs, *flags):
    words = [NODE, *flags, "run.js", json.dumps(jobs)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(folder, told):
    """Outputs are right, and have the same bits on any number of threads."""
    for one in told:
        assert one["outputs"] == told[0]["outputs"]
        for y, wanted in zip(one["outputs"], json.loads((folder / "y.json").read_text())):
            off = np.abs(np.subtract(y, wanted))
            assert off.shape == np.shape(wanted) and off.max() <= 5e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("flags", [(), (RELAXED,)])
def test_it_computes_the_model_in_node_on_any_threads(folder, flags):
    told = in_node(folder, [1, 2, 5], *flags)
    assert [one["threads"] for one in told] == [1, 2, 5]
    if flags:
        assert all(one["relaxed"] for one in told)
    check(folder, told)


def test_it_runs_beside_modules_that_make_workers_of_node_global(folder):
    """As onnxruntime-web does, once it has threads."""
    beside = "import { Worker } from 'node:worker_threads'; globalThis.Worker = Worker;"
    check(folder, in_node(folder, [1, 2], f"--import=data:text/javascript,{beside}"))


def test_relaxed_simd_is_only_used_where_it_is(folder):
    """Both builds compute the model; the plain one has no relaxed instruction."""
    madd = b"\xfd\x85\x02"
    assert madd in (folder / "net_relaxed.wasm").read_bytes()
    assert madd not in (folder / "net.wasm").read_bytes()


def test_several_outputs_have_names(tmp_path):
    needed()
    model = small()
    check(written(model, tmp_path), in_node(tmp_path, [1, 2]))
    names = {one.name for one in model.graph.output}
    assert all(f"{name}: Float32Array" in (tmp_path / "net.d.ts").read_text() for name in names)


class Server(SimpleHTTPRequestHandler):
    """Files of a folder, with headers of a page that is isolated or not; what is posted is kept."""

    def end_headers(self):
        if self.server.isolated:
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def do_POST(self):
        self.server.told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.posted.set()

    def log_message(self, *_):
        pass


def in_browser(folder, isolated, page="page.html"):
    """What a page of a folder posts."""
    if BROWSER is None:
        pytest.skip("no browser here: apt-get install chromium")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(folder)))
    server.isolated, server.posted = isolated, threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    words = [BROWSER, *(word for word in OPTIONS if word != "--dump-dom")]
    words += [f"--user-data-dir={folder}/data", f"http://127.0.0.1:{server.server_port}/{page}"]
    browser = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert server.posted.wait(180), "the page does not end"
    finally:
        browser.terminate()
        browser.wait(30)
        server.shutdown()
        server.server_close()
    return server.told


@pytest.mark.parametrize("isolated", [True, False])
def test_it_computes_the_model_in_a_browser(folder, isolated):
    """On threads where a page may share memory with workers, else on one."""
    told = in_browser(folder, isolated)
    assert isinstance(told, list), told
    assert [one["threads"] for one in told] == [1, 3 if isolated else 1]
    check(folder, told)


@pytest.mark.thorough
def test_the_example_shows_a_picture_before_and_after(tmp_path):
    needed()
    words = [sys.executable, str(ROOT / "examples" / "upscaler_in_a_browser.py"), "-o", "page"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "page" / "around.html").write_text(AROUND)
    told = in_browser(tmp_path / "page", True, "around.html")
    before = np.array(told["before"]).reshape(256, 256, 4)[:, :, :3]
    after = np.array(told["after"]).reshape(512, 512, 4)[:, :, :3]
    files = NETS["tiny"].weights
    net = NumpyNet(read(files.file(".param"), files.file(".bin")))
    x = np.float32(before.transpose(2, 0, 1)[None] / 255)
    wanted = 255 * np.clip(net(np.ascontiguousarray(x))[0], 0, 1).transpose(1, 2, 0)
    assert np.abs(after - wanted).max() <= 0.51 and np.ptp(after) > 100


@pytest.mark.parametrize(
    "script, said",
    [
        ("net.run(new Float32Array(3))", "RangeError: x: got 3 numbers; allowed: 1440 (1 x 3 x 24"),
        ("net.run([1, 2])", "TypeError: x: got Array; allowed: Float32Array"),
        ("net.run(null)", "TypeError: x: got null; allowed: Float32Array"),
        ("net.run()", "TypeError: net: got 0 arrays; allowed: 1"),
        ("(net.close(), net.run(new Float32Array(1440)))", "Error: net: it was closed"),
        ("await load({ threads: 0 })", "RangeError: threads: got 0; allowed: a whole number"),
        ("await load({ threads: 1.5 })", "RangeError: threads: got 1.5; allowed: a whole"),
    ],
)  # fmt: skip
def test_mistakes_are_named(folder, script, said):
    program = f"""import {{ load }} from "./net.js";
    const net = await load();
    try {{ {script}; }} catch (problem) {{ console.log(String(problem)); }}"""
    words = [NODE, "--input-type=module", "-e", program]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
    assert said in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda folder: (folder / "net_worker.js").unlink(), "net_worker.js: no worker: "),
        (
            lambda folder: (folder / "net_worker.js").write_text("oops("),
            "net_worker.js: no worker: ",
        ),
        (
            lambda folder: flip(folder / "net_weights.bin"),
            "net_weights.bin: damaged, or of another",
        ),
        (lambda folder: (folder / "net_weights.bin").unlink(), "net_weights.bin"),
    ],
)
def test_files_that_are_missing_or_damaged_are_named(folder, damage, said, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("data"))
    damage(tmp_path)
    words = [NODE, "run.js", "[2]"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode and said in done.stderr


def flip(path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 64
    path.write_bytes(data)


def test_what_the_host_chooses_itself_is_refused():
    for given in ({"isa": "wasm"}, {"weights": "const"}):
        (what,) = given
        with pytest.raises(InvalidValue, match=f"^{what}: got .* allowed: None with host 'web'"):
            generate(chain(), host="web", **given)
    with pytest.raises(InvalidValue, match='^host: got \'ggml\'; allowed: "c", "web"'):
        generate(chain(), host="ggml")
    with pytest.raises(InvalidValue, match="^threads: got 2 with a model"):
        generate(chain(), host="web", threads=2)


def test_a_compiler_that_is_missing_is_told_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CompilerNotFound, match="^host: got 'web', which takes clang >= 16 .*apt"):
        generate(chain(), host="web")


def test_a_quantized_model_is_refused(tmp_path):
    model = quantized(mobile([1, 3, 8, 8]), [1, 3, 8, 8], tmp_path)
    with pytest.raises(Unsupported, match="^host: got 'web'; allowed: 'c', as the model is"):
        generate(model, host="web")
