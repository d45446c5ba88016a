"""A rival with one way, "dying"."""

import fake_rivals


def ways(layer, x, weight, threads):
    return fake_rivals.ways(layer, x, weight, threads, which=("dying",))
