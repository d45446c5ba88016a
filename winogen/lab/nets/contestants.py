"""Who takes part: ways to run a whole net, each with the module that has its `ways`.

The modules look like those of `winogen.lab.peers`, but for their arguments::

    def ways(net, folder, threads) -> dict[str, Callable[[], Way]]

``folder`` has what `winogen.lab.nets.files` wrote. A module may serve several contestants: its
function is named behind the colon.
"""

from __future__ import annotations

from winogen.lab.peers import Peer, chosen

_HERE = "winogen.lab.nets"
RIVALS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("torch", f"{_HERE}.ways_torch:eager", ("torch",), "torch"),
        Peer("torch.compile", f"{_HERE}.ways_torch:compiled", ("torch",), "torch"),
        Peer("onnxruntime", f"{_HERE}.ways_onnx:ort", ("onnxruntime",), "onnxruntime"),
        Peer("openvino", f"{_HERE}.ways_onnx:openvino", ("openvino",), "openvino"),
        Peer("ncnn", f"{_HERE}.ways_onnx:ncnn", ("ncnn",), "ncnn"),
        Peer("mnn", f"{_HERE}.ways_onnx:mnn", ("MNN",), "MNN"),
        Peer("opencv", f"{_HERE}.ways_onnx:opencv", ("cv2",), "opencv-python-headless"),
    )
}
OURS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("winogen.torch", f"{_HERE}.ways_torch:optimized", ("torch",), "winogen"),
        Peer("winogen.onnx", f"{_HERE}.ways_onnx:optimized", ("onnx", "onnxruntime"), "winogen"),
    )
}
# Beside what contestants need: nets are built by torch and given away as ONNX.
NEEDED = ("torch", "onnx")


def rivals(names: str | None) -> tuple[Peer, ...]:
    """Return the rivals in a comma-separated list; None is all, "none" nobody.

    Raises InvalidValue for an unknown name.
    """
    return chosen(names, RIVALS)
