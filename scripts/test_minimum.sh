#!/bin/sh
# Test the oldest dependencies that pyproject.toml allows: make .venv-minimum with exactly them, and run
# in it the tests of what other packages do for us. Python 3.10 or 3.11 is needed, since the oldest
# numpy was built for no later one; without either there is nothing to do.
set -eu
cd "$(dirname "$0")/.."

python=
for name in ${PYTHON:-.venv/bin/python python3.11 python3.10 python3}; do
    if "$name" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info < (3, 12))' 2>/dev/null; then
        python=$name && break
    fi
done
if [ -z "$python" ]; then
    echo "winogen: the oldest dependencies need Python 3.10 or 3.11, which is not here: not tested" >&2
    exit 0
fi

requirements=$("$python" scripts/minimum.py plot)
# Our own test tools are not what users get, so any release will do.
tools='pytest>=8 pytest-xdist>=3.5 hypothesis>=6.100'
ours='--editable . --editable lab'
if ! [ "$requirements $ours" = "$(cat .venv-minimum/complete 2>/dev/null)" ]; then
    echo "winogen: setting up .venv-minimum with $("$python" --version) (a minute or two, once)"
    "$python" -m venv --clear .venv-minimum
    printf '%s\n' "$requirements" > .venv-minimum/wanted.txt
    # shellcheck disable=SC2086 # the tools are words, and what is ours
    .venv-minimum/bin/python -m pip install --quiet --disable-pip-version-check \
        --requirement .venv-minimum/wanted.txt $tools
    .venv-minimum/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $ours
    printf '%s %s' "$requirements" "$ours" > .venv-minimum/complete  # last, when all is in place
fi

exec .venv-minimum/bin/python -m pytest -n auto -W ignore::DeprecationWarning \
    tests/algebra tests/toolchain tests/cli \
    tests/conv/test_arguments.py tests/reports/test_report_parts.py "$@"
