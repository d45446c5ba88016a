"""Rivals that need no installation; the worker process imports this module by name."""

import os
import signal
import time

import numpy as np

from winogen_lab.peers import Way


def ways(layer, x, weight, threads, **options):
    return {name: WAYS[name](layer, x, weight) for name in options.get("which", ("exact", "slow"))}


def convolve(layer, x, weight):
    """By the definition, in float32; stride and padding only."""
    (ph, pw), (sh, sw) = layer.padding, layer.stride
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    n, m, rows, cols = layer.output
    y = np.zeros((n, m, rows, cols), np.float32)
    for i in range(layer.weight[2]):
        for j in range(layer.weight[3]):
            part = x[:, :, i : i + sh * (rows - 1) + 1 : sh, j : j + sw * (cols - 1) + 1 : sw]
            y += np.einsum("nchw,mc->nmhw", part, weight[:, :, i, j])
    return y


def exact(layer, x, weight):
    return lambda: Way(lambda: convolve(layer, x, weight), lambda y: y, {"kind": "numpy"})


def slow(layer, x, weight):
    def run():
        time.sleep(0.05)
        return convolve(layer, x, weight)

    return lambda: Way(run, lambda y: y)


def failing(layer, x, weight):
    def build():
        raise RuntimeError("no such\nprimitive")

    return build


def crooked(layer, x, weight):
    return lambda: Way(lambda: convolve(layer, x, weight)[:, :, 1:], lambda y: y)


def not_finite(layer, x, weight):
    return lambda: Way(lambda: convolve(layer, x, weight) * np.float32("nan"), lambda y: y)


def hanging(layer, x, weight):
    return lambda: time.sleep(60)


def dying(layer, x, weight):
    def build():
        print("about to fall", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)

    return build


def dying_later(layer, x, weight):
    calls = []

    def run():
        calls.append(1)
        if len(calls) > 40:
            os._exit(3)
        return convolve(layer, x, weight)

    return lambda: Way(run, lambda y: y)


WAYS = {
    "exact": exact,
    "slow": slow,
    "failing": failing,
    "crooked": crooked,
    "not finite": not_finite,
    "hanging": hanging,
    "dying": dying,
    "dying later": dying_later,
}
