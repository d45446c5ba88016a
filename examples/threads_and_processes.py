"""One Conv2d for many threads, and for processes: what is shared, and what has to be asked for.

Run: python examples/threads_and_processes.py
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np

import winogen

weight = np.random.default_rng(0).standard_normal((16, 8, 3, 3), np.float32)
images = [np.full((1, 8, 32, 32), value, np.float32) for value in range(8)]


def total(conv: winogen.Conv2d, image: np.ndarray) -> float:
    return float(conv(image).sum())


def main() -> None:
    # One thread per call: the pool has the threads. The packed weights are shared.
    conv = winogen.Conv2d(weight, padding=1, threads=1)
    alone = [total(conv, image) for image in images]
    with ThreadPoolExecutor(4) as pool:
        print("threads:  ", list(pool.map(total, [conv] * 8, images)) == alone)

    # A pickled Conv2d carries its weights; kernels come from the cache on disk. Children may use
    # threads of their own, forked ones too.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        print("processes:", list(pool.map(total, [conv] * 8, images)) == alone)

    # Threads inside a call. The bits are the same for any number of them.
    results = [
        winogen.Conv2d(weight, padding=1, algorithm="mcmr", tile=4, threads=n)(images[3])
        for n in (1, 2)
    ]
    print("same bits:", bool(np.array_equal(*results)))


if __name__ == "__main__":  # spawned children import this file
    main()
