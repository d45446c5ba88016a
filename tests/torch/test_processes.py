"""Threads and processes: torch's number of threads, children of all kinds."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import winogen.torch
from winogen.torch import packing

CODE = """
import multiprocessing, os, signal, sys, warnings
import torch
import winogen.torch
warnings.simplefilter("ignore")  # newer Pythons warn of any fork with threads

torch.set_num_threads(2)
torch.manual_seed(0)
conv = winogen.torch.Conv2d(16, 16, 3, padding=1)
x = torch.randn(2, 16, 20, 20)

def agrees(y):
    signal.alarm(100)
    with torch.inference_mode():
        fresh = winogen.torch.conv2d(x, conv.weight.detach().clone(), conv.bias, padding=1)
        return torch.equal(conv(x), fresh) and torch.allclose(fresh, y, atol=1e-4)
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE + code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("used", ("winogen", "torch"))
def test_a_forked_child_of_a_process_with_a_team_computes_the_same(used):
    code = f"""
with torch.inference_mode():
    if {used!r} == "torch":  # whose team the child lacks, too
        torch.nn.functional.conv2d(torch.randn(8, 64, 99, 99), torch.randn(64, 64, 3, 3))
        y = torch.nn.functional.conv2d(x, conv.weight, conv.bias, padding=1)
    else:
        y = conv(x)
pid = os.fork()
if not pid:
    os._exit(0 if agrees(y) else 1)
print(os.waitpid(pid, 0)[1], agrees(y))
"""
    assert run(code) == "0 True"


PARALLEL = """
import faulthandler
picture = torch.randn(1, 3, 128, 128)  # larger than what torch does in one thread
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(inplace=True))
winogen.torch.replace(model)

def step(picture):
    torch.nn.functional.conv2d(picture, torch.ones(8, 3, 3, 3))
    picture.contiguous(memory_format=torch.channels_last).exp()
    model.zero_grad()
    loss = model(picture).square().mean()
    loss.backward()
    assert torch.equal(model(picture), model(picture.clone()))
    return float(loss), float(model[0].weight.grad.abs().sum())

def child(number):
    faulthandler.dump_traceback_later(100, exit=True)  # a hang says where
    return (*step(picture), torch.get_num_threads())

expected = step(picture)
assert torch.get_num_threads() == 2
"""
CHECK = """
assert len(answers) == 3
for loss, gradient, threads in answers:
    assert abs(loss - expected[0]) < 1e-4 and abs(gradient / expected[1] - 1) < 1e-3
    assert threads == 1
print("right")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_children_run_torchs_parallel_functions_and_train():
    code = """
answers = []
for number in range(3):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(write, repr(child(number)).encode())
        os._exit(0)
    os.close(write)
    assert os.waitpid(pid, 0)[1] == 0
    answers.append(eval(os.read(read, 1000)))
"""
    assert run(PARALLEL + code + CHECK) == "right"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_ends_while_a_thread_plans():
    """Python's end would stop the thread within C++, which aborts the process."""
    code = """
import threading
from winogen.graph.later import go_on
from winogen.tasks.idle import give_way
began = threading.Event()
class Planner:
    def advance(self):
        x = torch.ones(1 << 20)
        while True:
            began.set()
            give_way()
            x = x.exp()
planner = Planner()
go_on(planner, (), None)
print(began.wait(60))
"""
    assert run(code) == "True"


def test_a_forked_child_ends_though_its_parent_was_about_to_plan():
    code = """
from winogen.graph import later
class Planner:
    def advance(self):
        pass
planner = Planner()
later.go_on(planner, (), None)
lock = later._planners[os.getpid()]._lock
lock.acquire()  # as a thread does that takes its next work
pid = os.fork()
if not pid:
    signal.alarm(60)
    sys.exit()
lock.release()
print(os.waitpid(pid, 0)[1])
"""
    assert run(code) == "0"


def test_a_pool_of_forked_children():
    code = """
with multiprocessing.get_context("fork").Pool(2) as pool:
    answers = pool.map(child, range(3))
"""
    assert run(PARALLEL + code + CHECK) == "right"


@pytest.mark.parametrize("method", ("fork", "spawn"))
def test_workers_of_a_data_loader_run_models(method, tmp_path):
    """Pictures that a model has prepared, in as many processes as the loader wants."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    (tmp_path / "pictures.py").write_text(
        "import torch, winogen.torch\n"
        "class Pictures(torch.utils.data.Dataset):\n"
        "    def __init__(self, model):\n"
        "        self.model = model\n"
        "    def __len__(self):\n"
        "        return 6\n"
        "    def __getitem__(self, number):\n"
        "        x = torch.full((1, 3, 128, 128), number / 6)\n"
        "        with torch.inference_mode():\n"
        "            return self.model(x)[0]\n"
    )
    code = f"""
sys.path.insert(0, {str(tmp_path)!r})
if __name__ == "__main__":
    from pictures import Pictures
    model = torch.nn.Sequential(conv, torch.nn.ReLU(inplace=True))
    model[0] = winogen.torch.Conv2d(3, 16, 3, padding=1).to(memory_format=torch.channels_last)
    pictures = Pictures(model)
    expected = torch.stack([pictures[i] for i in range(6)])
    loader = torch.utils.data.DataLoader(
        pictures, batch_size=2, num_workers=2, multiprocessing_context={method!r}, timeout=100
    )
    assert torch.allclose(torch.cat(list(loader)), expected, atol=1e-5)
    print("right")
"""
    (tmp_path / "main.py").write_text(CODE + code)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "right"


def test_modules_travel_between_processes(tmp_path):
    (tmp_path / "child.py").write_text(
        "import torch, winogen.torch\n"
        "def work(conv, x):\n"
        "    torch.set_num_threads(1)\n"
        "    with torch.inference_mode():\n"
        "        return conv(x).numpy()\n"
    )
    code = f"""
sys.path.insert(0, {str(tmp_path)!r})
if __name__ == "__main__":
    from child import work
    with torch.inference_mode():
        y = conv(x)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print((pool.apply(work, (conv, x)) == y.numpy()).all())
"""
    assert run(code) == "True"


def test_a_module_is_called_from_several_threads():
    conv = winogen.torch.Conv2d(8, 8, 3, padding=1)
    inputs = [torch.randn(1, 8, 10 + size % 4, 12) for size in range(40)]
    with torch.inference_mode():
        expected = [conv(x) for x in inputs]
    conv.repack()

    def work(x):
        with torch.inference_mode():
            return conv(x)

    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(y, e) for y, e in zip(pool.map(work, inputs), expected))


def test_the_number_of_threads_is_torchs(monkeypatch):
    asked = []
    original = packing.CONVOLUTIONS[2]

    def conv2d(*arrays, threads, **options):
        asked.append(threads)
        return original(*arrays, threads=1, **options)

    monkeypatch.setitem(packing.CONVOLUTIONS, 2, conv2d)
    conv, x = winogen.torch.Conv2d(4, 4, 3), torch.randn(1, 4, 8, 8)
    with torch.inference_mode():
        conv(x)
        torch.set_num_threads(2)
        conv(x)
        winogen.torch.Conv2d(4, 4, 3, threads=3)(x)
    assert asked == [1, 2, 3]
