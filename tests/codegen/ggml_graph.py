"""Graphs of ggml from PyPI (ggml-python), and generated nodes in them."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np

HEADERS = Path(__file__).parent / "ggml"
_ANY = ctypes.c_void_p


class Graph:
    """A context of ggml with memory for its tensors, whose data are arrays of numpy.

    ``allocates``: whether it has memory for the data; else a backend has.
    """

    def __init__(self, megabytes: int = 64, allocates: bool = True):
        import ggml

        self.ggml = ggml
        self.types = {
            np.dtype(np.float32): ggml.GGML_TYPE_F32,
            np.dtype(np.float16): ggml.GGML_TYPE_F16,
        }
        size = megabytes << 20
        params = ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=not allocates)
        self.context = ggml.ggml_init(params)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ggml.ggml_free(self.context)

    def tensor(self, array: np.ndarray):
        """Return a tensor that holds a copy of ``array``, whose axes it counts from the last."""
        made = self.empty(array)
        self.fill(made, array)
        return made

    def empty(self, array: np.ndarray):
        """Return a tensor as large as an array."""
        sizes = (*array.shape[::-1], 1, 1, 1)[:4]
        return self.ggml.ggml_new_tensor_4d(self.context, self.types[array.dtype], *sizes)

    def fill(self, tensor, array: np.ndarray) -> None:
        """Copy an array to where the data of a tensor lie."""
        data = self.data(tensor, array.dtype)
        data[:] = array.reshape(data.shape)

    def data(self, tensor, dtype=np.float32) -> np.ndarray:
        """Return what a tensor holds, as (N, C, H, W)."""
        size = self.ggml.ggml_nbytes(tensor)
        room = (ctypes.c_char * size).from_address(self.ggml.ggml_get_data(tensor))
        return np.frombuffer(room, dtype).reshape(tuple(tensor.contents.ne)[::-1])

    def compute(self, node, threads: int = 1) -> None:
        """Compute a node and all that it needs."""
        self.prepared(node, threads)()

    def prepared(self, node, threads: int = 1):
        """Return a function that computes a node and all that it needs, planned once."""
        graph = self.ggml.ggml_new_graph_custom(self.context, 4096, False)
        self.ggml.ggml_build_forward_expand(graph, node)
        plan = self.ggml.ggml_graph_plan(graph, threads, None)
        work = np.empty(plan.work_size + 64, np.uint8)
        plan.work_data = ctypes.cast(work.ctypes.data, type(plan.work_data))

        def compute():
            assert work.size and plan.work_data
            status = self.ggml.ggml_graph_compute(graph, ctypes.byref(plan))
            assert status == 0, f"ggml: status {status}"

        return compute


def libraries() -> Path:
    """Return the folder of ggml's libraries."""
    import ggml

    return Path(ggml.__file__).parent / "lib"


class Node:
    """A generated layer: its files in ``folder``, compiled and loaded."""

    def __init__(self, folder: Path, name: str, command=("cc", "-std=gnu11", "-O3")):
        flags = ["-fPIC", "-shared", "-isystem", str(HEADERS)]
        linked = [f"-L{libraries()}", "-lggml-base", f"-Wl,-rpath,{libraries()}"]
        source, made = str(folder / f"{name}.c"), str(folder / f"{name}.so")
        subprocess.run([*command, *flags, source, "-o", made, *linked], check=True)
        self.name, self.library = name, ctypes.CDLL(made)

    def _function(self, suffix: str, result, *arguments):
        function = getattr(self.library, f"{self.name}{suffix}")
        function.restype, function.argtypes = result, arguments
        return function

    def packed(self, graph: Graph, weight):
        """Return the tensor of packed weights, filled."""
        made = self.empty_packed(graph)
        self.pack(weight, made)
        return made

    def empty_packed(self, graph: Graph):
        """Return the tensor of packed weights as it is made."""
        return self._function("_packed", _ANY, _ANY)(graph.context)

    def pack(self, weight, packed) -> None:
        """Fill it."""
        self._function("_pack", None, _ANY, _ANY)(ctypes.cast(weight, _ANY), packed)

    def workspace_bytes(self, threads: int) -> int:
        """Return the bytes of a node's workspace."""
        return self._function("_workspace_bytes", ctypes.c_size_t, ctypes.c_int)(threads)

    def __call__(self, graph: Graph, input, packed, *others, threads: int = 1):
        """Return the node; ``others``: bias (or None), slopes and what is added, as it has them."""
        tensors = [ctypes.cast(one, _ANY) if one else None for one in (input, packed, *others)]
        make = self._function("", _ANY, _ANY, *[_ANY] * len(tensors), ctypes.c_int)
        return ctypes.cast(make(graph.context, *tensors, threads), type(input))
