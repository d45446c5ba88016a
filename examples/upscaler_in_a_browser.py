"""A picture twice as wide and high, in a browser: a trained net as WebAssembly, and a page.

Run: python examples/upscaler_in_a_browser.py -o upscaler

    python examples/upscaler_in_a_browser.py -o upscaler --serve 8000

The second one also serves it on http://localhost:8000, on as many threads as the browser has cores.
The net is the tiny one of winogen_lab. Needs onnx, onnxruntime and winogen_lab: pip install
'.[onnx]' and pip install ./lab; and clang-16, lld-16 and wasi-libc of Debian.
"""

import argparse
import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from winogen.demo.photograph import photograph_or_drawing, write_png
from winogen.network import generate

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError:
    sys.exit("onnx: cannot be imported; install it by pip install '.[onnx]'")
try:
    from winogen_lab.nets import NETS
    from winogen_lab.nets.ncnn_files import NcnnLayer, read
except ImportError:
    sys.exit("winogen_lab: cannot be imported; install it by pip install ./lab")

SIZE = 256  # pixels of the picture, along both axes


def node_of(layer: NcnnLayer, names: tuple, tensors: dict) -> onnx.NodeProto:
    """Return what a layer is in ONNX, which reads these values; its weights join ``tensors``."""
    new = {f"{layer.name}.{name}": value for name, value in layer.weights.items()}
    if layer.kind == "PReLU":
        new = {name: slope.reshape(-1, 1, 1) for name, slope in new.items()}
    if layer.kind == "Interp":
        new = {f"{layer.name}.scales": np.array([1, 1, 2, 2], "f4")}
        names = (*names, "")
    tensors |= new
    kind, attributes = {
        "Convolution": ("Conv", {"pads": [1, 1, 1, 1]}),
        "PReLU": ("PRelu", {}),
        "PixelShuffle": ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
        "Interp": ("Resize", {"mode": "nearest", "nearest_mode": "floor",
                              "coordinate_transformation_mode": "asymmetric"}),
        "BinaryOp": ("Add", {}),
    }[layer.kind]  # fmt: skip
    return helper.make_node(kind, [*names, *new], layer.outputs, layer.name, **attributes)


def model() -> onnx.ModelProto:
    """Return the tiny net, which doubles pictures of `SIZE` x `SIZE`, numbers from 0 to 1."""
    files, alias, nodes, tensors = NETS["tiny"].weights, {}, [], {}
    for layer in read(files.file(".param"), files.file(".bin")):
        names = tuple(alias.get(name, name) for name in layer.inputs)
        if layer.kind == "Split":
            alias.update(dict.fromkeys(layer.outputs, names[0]))
        elif layer.kind != "Input":
            nodes.append(node_of(layer, names, tensors))
    value, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    ends = [value("x", kind, [1, 3, SIZE, SIZE])], [value("y", kind, [1, 3, 2 * SIZE, 2 * SIZE])]
    arrays = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = helper.make_graph(nodes, "upscaler", *ends, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Handler(SimpleHTTPRequestHandler):
    """Files with the headers by which a page may share memory with its workers."""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


parser = argparse.ArgumentParser(description="Write a page that enlarges pictures.")
parser.add_argument("-o", "--output", type=Path, default=Path("upscaler"))
parser.add_argument("--serve", metavar="PORT", type=int)
options = parser.parse_args()

files = generate(model(), host="web", name="upscaler")
files.write(options.output)
picture = photograph_or_drawing()[:, 40:, 128:][:, :SIZE, :SIZE]
pixels = np.clip(255 * picture + 0.5, 0, 255).astype(np.uint8)
write_png(options.output / "picture.png", pixels.transpose(1, 2, 0))
shutil.copy(Path(__file__).with_name("upscaler_page.html"), options.output / "index.html")
print(f"{files}\n{options.output / 'index.html'}")
if options.serve:
    print(f"http://localhost:{options.serve}", flush=True)
    handler = partial(Handler, directory=str(options.output))
    ThreadingHTTPServer(("127.0.0.1", options.serve), handler).serve_forever()
