#!/bin/sh
# Make .venv with winogen and winogen-lab (editable) and all that tests need; do nothing if it is up to date.
# Whatever the machine lacks is reported in one line that says what to install.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "winogen: $1" >&2
    exit 1
}

# --- a C compiler: kernels are compiled when they are first used ---
compiler=
if [ -n "${CC:-}" ]; then
    command -v "${CC%% *}" >/dev/null 2>&1 || fail "CC is '$CC', which is not a program; set it to gcc >= 9 or clang >= 10"
    compiler=$CC
else
    for name in cc gcc clang; do
        if command -v "$name" >/dev/null 2>&1; then compiler=$name && break; fi
    done
fi
[ -n "$compiler" ] || fail "no C compiler found; install gcc >= 9 or clang >= 10 (Debian, Ubuntu: apt install gcc; Fedora: dnf install gcc; macOS: xcode-select --install) or set CC"

# --- up to date? The copy of both pyproject.toml is written last, when everything is in place. ---
if cat pyproject.toml lab/pyproject.toml | cmp -s - .venv/pyproject.toml && .venv/bin/python -c '' 2>/dev/null; then
    exit 0
fi

# --- Python >= 3.10 with venv ---
recent='import sys; sys.exit(sys.version_info < (3, 10))'
python=
for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10 python}; do
    if "$name" -c "$recent" 2>/dev/null; then python=$name && break; fi
done
if [ -z "$python" ]; then
    found=$("${PYTHON:-python3}" -c 'import sys; print(sys.version.split()[0])' 2>/dev/null || echo none)
    fail "needs Python >= 3.10, found $found; install it (Debian, Ubuntu: apt install python3 python3-venv; Fedora: dnf install python3; macOS: brew install python) or set PYTHON=/path/to/python3"
fi
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "$python has no venv module; install it (Debian, Ubuntu: apt install python3-venv) or set PYTHON to another Python >= 3.10"

echo "winogen: setting up .venv with $("$python" --version) (a minute or two, once)"
# A .venv whose Python is gone or too old is replaced, any other is only brought up to date.
.venv/bin/python -c "$recent" 2>/dev/null || "$python" -m venv --clear .venv ||
    fail "could not create .venv; see above"
# Before 21.3 pip cannot install a pyproject.toml in place.
.venv/bin/python -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (21, 3))' ||
    .venv/bin/python -m pip install --quiet --upgrade pip || fail "could not update pip; see above"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' --editable lab ||
    fail "could not install the packages named in pyproject.toml; see above"
cat pyproject.toml lab/pyproject.toml > .venv/pyproject.toml
