#!/bin/sh
# Build, check and test the sdist and the wheel with prebuilt kernels, and build those of the
# laboratory: scripts/wheel.py says how.
# $1: the kind of machine; x86_64 or aarch64.
set -eu
cd "$(dirname "$0")/.."
machine=${1:-x86_64}

if ! cmp -s pyproject.toml .venv-wheel/pyproject.toml; then
    .venv/bin/python -m venv --clear .venv-wheel
    .venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
    cp pyproject.toml .venv-wheel/pyproject.toml  # last, when everything is in place
fi
rm -rf dist
.venv-wheel/bin/python scripts/wheel.py --machine "$machine"
.venv-wheel/bin/python scripts/check_wheel.py dist/*"$machine".whl
.venv-wheel/bin/python scripts/test_wheel.py dist/*"$machine".whl dist/winogen-*.tar.gz
