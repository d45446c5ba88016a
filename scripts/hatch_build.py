"""Puts prebuilt kernels into a wheel, which is then for one kind of machine.

scripts/wheel.py says by two variables where they are and what the wheel is called after. Without
them the wheel has none, and is for any machine.
"""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltKernels(BuildHookInterface):
    """The hook, which pyproject.toml names."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Add the files and the tag."""
        folder = os.environ.get("WINOGEN_WHEEL_KERNELS")
        if not folder:
            return
        build_data["pure_python"] = False
        build_data["tag"] = os.environ["WINOGEN_WHEEL_TAG"]
        for path in sorted(Path(folder).glob("*.kernels")):
            build_data["force_include"][str(path)] = f"winogen/prebuilt/{path.name}"
