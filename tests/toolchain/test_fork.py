"""Forked children: no lock is held for ever, and nobody waits for threads that are not there."""

import threading

# Defines child(work): runs work() in a forked child and returns what it gives, or "hangs".
FORK = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of any fork with threads

def child(work, patience=60):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            signal.alarm(patience)
            os.write(write, str(work()).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    answer = b"".join(iter(lambda: os.read(read, 1000), b"")).decode()
    _, status = os.waitpid(pid, 0)
    return answer if not status else "hangs"
"""


def test_a_lock_held_by_another_thread_is_free_in_the_child(python):
    code = f"""{FORK}
from winogen.toolchain.fork import Lock
lock, held, gate = Lock(), threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        gate.wait()
def use():
    for _ in range(2):
        with lock: pass
    return "free"
threading.Thread(target=hold).start()
held.wait()
print(child(use, 20))
gate.set()
print(use())
with lock:  # a child that is born inside goes on inside
    print(child(lambda: "inside"))
    pid = os.fork()
if not pid:
    os._exit(0 if use() == "free" else 1)
print(os.waitpid(pid, 0)[1])
"""
    assert python(code).finish().splitlines() == ["free", "free", "inside", "0"]


def test_threads_exclude_each_other():
    from winogen.toolchain.fork import Lock

    lock, inside, most = Lock(), [0], [0]

    def work():
        for _ in range(2000):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and inside == [0]


def test_a_child_of_a_process_that_compiles_can_load_the_same_kernel(fake_cc, python, tmp_path):
    started, gate = tmp_path / "started", tmp_path / "gate"
    fake_cc(
        f"""case "$*" in *kernel.c*)
            touch {started}; while [ ! -e {gate} ]; do sleep 0.05; done;; esac"""
    )
    code = f"""{FORK}
from winogen.toolchain import host_target, load
def use():
    source = "int twice(int x) {{ return 2 * x; }}"
    return load(source, "int twice(int);", host_target()).lib.twice(21)
threading.Thread(target=use).start()
while not os.path.exists({str(started)!r}): time.sleep(0.01)
def later():  # the child must come to wait first
    time.sleep(1)
    open({str(gate)!r}, "w").close()
threading.Thread(target=later).start()
print(child(use), use())
"""
    assert python(code).finish() == "42 42"


def test_limits_can_be_measured_in_a_child(python):
    code = f"""{FORK}
from winogen.toolchain import host_target
from winogen.toolchain.limits import fma_peak
from winogen.toolchain.meters import MemoryMeter, Reading
def use():
    fma_peak(2, seconds=0.001)
    Reading(MemoryMeter(1 << 14, 2, host_target()), 1 << 14).go_on(0.001)
    return "measured"
print(use(), child(use))
"""
    assert python(code).finish() == "measured measured"


def test_nobody_forks_while_a_program_is_started(python):
    """Else the child holds an end of the program's pipe, for which the parent waits."""
    code = f"""{FORK}
import subprocess
from winogen.toolchain.fork import finished
opened, popen = threading.Event(), subprocess.Popen
class Slow(popen):
    def _execute_child(self, *arguments):
        opened.set()
        time.sleep(0.3)  # its pipes are open
        super()._execute_child(*arguments)
subprocess.Popen = Slow
answers = []
thread = threading.Thread(target=lambda: answers.append(finished(["echo", "done"]).stdout))
thread.start()
opened.wait()
read, write = os.pipe()
pid = os.fork()
if not pid:  # it lives until the parent says so
    os.close(write)
    os.read(read, 1)
    # and may start programs, and fork
    os._exit(0 if finished(["true"]).returncode == 0 and child(lambda: 1) == "1" else 1)
os.close(read)
thread.join(30)
print(thread.is_alive(), *answers)
os.close(write)
print(os.waitpid(pid, 0)[1])
"""
    assert python(code).finish().split() == ["False", "done", "0"]
