"""The threads of kernels: a pool of our own, or those of an OpenMP library in the process."""

import ctypes.util
import importlib.util
import os
import re
import subprocess
import sys
import threading

import pytest
from toolchain.test_fork import FORK

from winogen import resources
from winogen.toolchain import find_compiler, host_target, load, threads

# Counts the calls for each number in `calls`, and notes down the thread of each in `by`.
SOURCE = r"""
#include <pthread.h>
#include <time.h>

static winogen_team *on_team = on_openmp;
void winogen_use_team(winogen_team *team) { on_team = team; }

typedef struct {
    int *calls;
    uint64_t *by;
    int64_t nap;
} counts;

static void count_one(void *context, int64_t i)
{
    const counts *c = context;
    const struct timespec nap = { c->nap / 1000, c->nap % 1000 * 1000000 };
    __atomic_fetch_add(&c->calls[i], 1, __ATOMIC_RELAXED);
    c->by[i] = (uint64_t)pthread_self();
    if (c->nap) nanosleep(&nap, NULL);
}

void count(int *calls, uint64_t *by, int64_t number, int64_t nap, int threads)
{
    counts c = { calls, by, nap };
    on_team(count_one, &c, number, threads);
}
"""
CDEF = "void count(int *calls, uint64_t *by, int64_t number, int64_t nap, int threads);"

# Defines used(count, threads, nap): by how many threads all numbers were called once.
USED = f"""
from winogen.toolchain import host_target, load, threads
library = load(threads.with_team({SOURCE!r}), {CDEF!r}, host_target(), name="count")

def used(count, wanted, nap=0):
    calls, by = library.ffi.new("int[]", count), library.ffi.new("uint64_t[]", count)
    library.lib.count(calls, by, count, nap, wanted)
    assert list(calls) == [1] * count, list(calls)
    return len(set(by))

def followed():
    return threads._pool().winogen_threads_followed()
"""
GOMP = ctypes.util.find_library("gomp")
needs_gomp = pytest.mark.skipif(not GOMP, reason="needs gcc's OpenMP library")


@pytest.fixture
def used():
    names = {}
    exec(USED, names)
    return names["used"]


def test_every_number_is_called_once(used):
    for count in (0, 1, 2, 3, 7, 100, 5000):
        for wanted in (1, 2, 3, 8, 2000):
            assert used(count, wanted) <= min(count, wanted)


def test_as_many_threads_as_asked_for_work_at_once(used):
    assert used(3, 3, nap=300) == 3
    assert used(3, 2, nap=300) == 2
    assert used(2, 1, nap=1) == 1


def test_calls_may_be_made_from_many_threads(used):
    wrong = []

    def work(seed):
        try:
            for turn in range(200):
                used((seed + turn) % 9, 1 + turn % 4)
        except AssertionError as error:
            wrong.append(error)

    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_no_library_names_an_openmp_library():
    folder = resources.folder("csrc")
    limits = threads.with_team((folder / "limits.c").read_text())
    library = load(limits, "void winogen_use_team(void *);", host_target(), ("-DVECTOR_BYTES=16",))
    for path in (library.path, *library.path.parent.parent.glob("threads-*/*.so")):
        assert not re.search(rb"(?i)gomp|libi?omp|__kmpc", path.read_bytes()), path


PINNED = """
import os

def tasks():
    return {int(task) for task in os.listdir("/proc/self/task")}

everywhere, before = os.sched_getaffinity(0), tasks()
for cpus in ({min(everywhere)}, everywhere, {max(everywhere)}):
    os.sched_setaffinity(0, cpus)
    assert used(2, 2, nap=300) == 2
    (made,) = tasks() - before
    print(os.sched_getaffinity(made) == cpus)
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs 2 CPUs"
)
def test_threads_run_where_their_caller_may_run_now(python):
    assert python(USED + PINNED).finish().split() == ["True"] * 3


def test_a_forked_child_makes_threads_anew(python):
    code = f"""{FORK}{USED}
print(used(3, 3, 300), child(lambda: [used(3, 3, 300), child(lambda: used(3, 3, 300))]))
print(used(3, 3, 300), followed())
"""
    assert python(code).finish().splitlines() == ["3 [3, '3']", "3 0"]


@needs_gomp
def test_an_openmp_library_is_followed_from_when_it_comes(python):
    code = f"""{FORK}{USED}
import ctypes, types
before = used(3, 3, 300), followed()
ctypes.CDLL({GOMP!r})  # as an imported module would
sys.modules["anything"] = types.ModuleType("anything")
threads.follow()
print(*before, used(3, 3, 300), followed(), used(5000, 2), used(2, 5))
print(child(lambda: [used(3, 3, 300), followed()]))  # gcc's library would hang
"""
    assert python(code).finish().splitlines() == ["3 0 3 1 2 2", "[3, 0]"]


@needs_gomp
def test_a_forked_child_begins_with_winogen_after_its_parent_had_openmp(python):
    code = f"""{FORK}
import ctypes
ctypes.CDLL({GOMP!r}).GOMP_parallel(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(id), None, 3, 0)
def use():
    exec({USED!r}, globals())
    return [used(3, 3, 300), followed()]
print(child(use))  # gcc's library would hang
"""
    assert python(code).finish() == "[3, 0]"


@pytest.mark.parametrize("name", ("gomp", "omp", "iomp5"))
def test_an_openmp_library_that_is_there_is_followed_at_once(name, python):
    """gcc's, LLVM's and Intel's have the functions of gcc's that are called."""
    path = ctypes.util.find_library(name)
    if path is None:
        pytest.skip(f"needs lib{name}")
    code = f"""{FORK}
import ctypes
ctypes.CDLL({path!r})
{USED}
print(used(3, 3, 300), followed(), len(threads.runtimes()))
print(child(lambda: [used(3, 3, 300), followed()]))
"""
    assert python(code).finish().splitlines() == ["3 1 1", "[3, 0]"]


def test_names_of_openmp_libraries():
    lines = """
7f00-7f01 r-xp 00000000 fe:01 12 /a b/libgomp-a34b3233.so.1.0.0
7f01-7f02 rw-p 00000000 fe:01 12 /a b/libgomp-a34b3233.so.1.0.0
7f00-7f01 r-xp 00000000 fe:01 13 /usr/lib/libiomp5.so
7f00-7f01 r-xp 00000000 fe:01 14 /usr/lib/llvm-19/lib/libomp.so.5
7f00-7f01 r-xp 00000000 fe:01 15 /usr/lib/libompitrace.so.40
7f00-7f01 r-xp 00000000 fe:01 16 /usr/lib/libomptarget.so
7f00-7f01 r-xp 00000000 fe:01 17 /usr/lib/libgomp.so.1 (deleted)
"""
    paths = [match[0] for match in threads._MAPPED.finditer(lines)]
    assert [path.rpartition("/")[2] for path in dict.fromkeys(paths)] == [
        "libgomp-a34b3233.so.1.0.0",
        "libiomp5.so",
        "libomp.so.5",
    ]
    assert paths[0].startswith("/a b/")


def test_an_idle_pool_takes_no_time_of_the_cpu(python):
    code = f"""{USED}
import time
for _ in range(100): used(1000, 4)
since = time.process_time()
time.sleep(1)
print(time.process_time() - since)
"""
    assert float(python(code).finish()) < 0.3


RESTED = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

void winogen_on_threads(void (*one)(void *, int64_t), void *, int64_t count, int threads);
void winogen_threads_begin(void *create);

static int cpus[2], counts[2];

static void note(void *unused, int64_t i)
{
    const clock_t begin = clock();
    cpu_set_t mask;
    (void)unused;
    cpus[i] = sched_getcpu();
    sched_getaffinity(0, sizeof mask, &mask);
    counts[i] = CPU_COUNT(&mask);
    while (clock() - begin < CLOCKS_PER_SEC / 500);
}

int main(void)
{
    const struct timespec nap = { 0, 20000000 };
    int beside = 0, narrowed = 0;
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    winogen_threads_begin((void *)pthread_create);
    for (int turn = 0; turn < 40; turn++) {
        nanosleep(&nap, NULL);
        winogen_on_threads(note, NULL, 2, 2);
        if (turn == 0) continue;    /* the thread was made */
        beside += cpus[0] == cpus[1];
        narrowed += counts[0] != CPU_COUNT(&mask) || counts[1] != CPU_COUNT(&mask);
    }
    printf("%d %d\n", beside, narrowed);
}
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs 2 CPUs"
)
def test_a_thread_that_slept_begins_on_a_cpu_that_its_caller_does_not_use(tmp_path):
    """In half of all calls at most: where others compute, it may be moved."""
    (tmp_path / "rested.c").write_text(RESTED)
    pool = str(resources.folder("csrc") / "threads.c")
    words = ["-std=gnu11", "-O1", "rested.c", pool, "-pthread", "-o", "rested"]
    subprocess.run([*find_compiler().command, *words], cwd=tmp_path, check=True)
    printed = subprocess.run(["./rested"], cwd=tmp_path, capture_output=True, text=True, check=True)
    beside, narrowed = map(int, printed.stdout.split())
    assert narrowed == 0 and beside <= 20


DRIVER = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>

void winogen_on_threads(void (*one)(void *, int64_t), void *, int64_t count, int threads);
void winogen_threads_begin(void *create);

static void add(void *numbers, int64_t i) { ((int64_t *)numbers)[i] += i; }

static int wrong(int64_t count, int threads)
{
    int64_t numbers[64] = {0}, bad = 0;
    winogen_on_threads(add, numbers, count, threads);
    for (int64_t i = 0; i < count; i++) bad += numbers[i] != i;
    return bad != 0;
}

static void *caller(void *seed)
{
    const struct timespec nap = { 0, 3000000 };    /* longer than idle threads stay awake */
    intptr_t bad = 0;
    for (int turn = 0; turn < 300; turn++) {
        bad += wrong((turn * 7 + (intptr_t)seed) % 64, 1 + turn % 5);
        if (turn % 30 == (intptr_t)seed) nanosleep(&nap, NULL);
    }
    return (void *)bad;
}

static int no_thread(void) { return 11; }

int main(void)
{
    intptr_t bad = 0;
    void *result;
    pthread_t callers[4];
    winogen_threads_begin((void *)no_thread);
    bad += wrong(64, 4);
    winogen_threads_begin((void *)pthread_create);
    for (intptr_t seed = 0; seed < 4; seed++)
        pthread_create(&callers[seed], NULL, caller, (void *)seed);
    for (int seed = 0; seed < 4; seed++) {
        pthread_join(callers[seed], &result);
        bad += (intptr_t)result;
    }
    printf("%d wrong\n", (int)bad);
    return bad != 0;
}
"""


@pytest.mark.parametrize("sanitizer", ("thread", "address,undefined"))
def test_the_pool_has_no_races(sanitizer, tmp_path):
    """Also where no thread can be made."""
    (tmp_path / "driver.c").write_text(DRIVER)
    pool = str(resources.folder("csrc") / "threads.c")
    words = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-fsanitize={sanitizer}")
    command = [*find_compiler().command, *words, "driver.c", pool, "-pthread", "-o", "driver"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True).returncode:
        plain = [word for word in command if "sanitize" not in word]
        subprocess.run(plain, cwd=tmp_path, check=True)
        pytest.skip(f"no -fsanitize={sanitizer}")
    run = subprocess.run(["./driver"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in run.stderr:
        pytest.skip("ThreadSanitizer does not run on this kernel")
    assert run.stdout == "0 wrong\n" and not run.stderr, run.stdout + run.stderr[-4000:]


INTERPRETERS = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"


@pytest.mark.skipif(not importlib.util.find_spec(INTERPRETERS), reason="another Python")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cffi is for the main interpreter there")
def test_a_subinterpreter_is_told_that_it_cannot_compile(python):
    """numpy can be imported by one interpreter of a process, which need not be the main one."""
    code = f"""
import {INTERPRETERS} as interpreters
import sys
code = f"import sys; sys.path = {{sys.path!r}}\\n" + {USED!r} + "print(used(3, 3, 300))"
try:
    interpreters.run_string(interpreters.create(), code)
except interpreters.RunFailedError as error:
    print("CompilerNotFound" in str(error) and "main interpreter" in str(error))
"""
    assert python(code).finish() == "True"
    assert python(USED + "print(used(3, 3, 300))").finish() == "3"
    assert python(code).finish() == "3"
