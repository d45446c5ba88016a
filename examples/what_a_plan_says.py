"""Before a layer runs: which algorithm, why that one, what else there was, and how much memory.

Run: python examples/what_a_plan_says.py
"""

import numpy as np

import winogen

weight = np.random.default_rng(0).standard_normal((64, 64, 3, 3), np.float32)
shape = (1, 64, 56, 56)

plan = winogen.Conv2d(weight, padding=1).plan(shape)
print(plan)

# Each line is an attribute, too.
print(f"\n{plan.algorithm}, variant {plan.variant}, tile {plan.tile}, on {plan.isa}")
print(f"{plan.direct_multiplications / plan.multiplications:.2f} times fewer multiplications")

print("\nThe fastest candidates, the chosen one first:")
for way in plan.predictions:
    kind = f"{way.algorithm} {way.tile} {way.tag}".rstrip()
    print(f"  {1e3 * way.seconds:6.3f} ms  error {way.error:.0e}  {kind}")

# Options hold a plan to limits. What cannot be kept is refused before anything runs.
print("\nworkspace of the")
for name, options in {
    "default": {},
    "fastest within 1e-5": {"tolerance": 1e-5},
    "most accurate": {"algorithm": "direct"},
    "fastest within 100 kB": {"workspace_limit": 100_000},
}.items():
    one = winogen.Conv2d(weight, padding=1, threads=1, **options).plan(shape)
    kind = one.algorithm if one.tile is None else f"{one.algorithm} {one.tile}"
    print(f"  {name:<22} {one.workspace_bytes:>9,} bytes  {kind}")
try:
    winogen.Conv2d(weight, padding=1, algorithm="mcmr", workspace_limit=1000).plan(shape)
except winogen.WinogenError as error:
    print(f"\n{error}")
