"""A text of C has no function, macro or type that nothing in it uses."""

import re
import subprocess

import pytest
from kernels.test_golden import everything

from winogen.codegen.calls import used_only
from winogen.toolchain import find_compiler

KERNEL = """\
/* A kernel. */
#include <stdint.h>

#define INLINE static inline

/* ---- numbers --------------------------------------------------------------------------------- */

typedef float vec __attribute__((vector_size(16)));
typedef int64_t (*reader)(int64_t);

#ifdef WIDE
/* One. */
INLINE int one(void) { return 1; }    /* a wide
                                       * one */
#else
INLINE int one(void)
{
    return 2;
}
#endif

/* ---- sums ------------------------------------------------------------------------------------ */

/* Of both. */
static const int table[2][2] = {
    { 1, 2 },
    { 3, 4 },
};
static __attribute__((noinline)) int two(
    int of)
{
#if defined(WIDE)
    if (of) {
#else
    if (!of) {
#endif
        return table[0][1];
    }
    return 0;
}

#define PART(n, suffix)                         \\
    static int part_##n(void)                   \\
    {                                           \\
        return block##suffix(n);                \\
    }
INLINE int block_half(int n) { return n / 2; }
PART(1, _half) PART(2, _half)

"""


def test_what_nobody_calls_leaves_with_its_comment_and_heading():
    text = used_only(f"{KERNEL}int run(void)\n{{\n    return part_1();\n}}\n")
    assert "block_half" in text and "PART" in text
    for gone in ("one", "two", "table", "vec", "reader", "WIDE", "numbers", "Of both", "INLINE "):
        assert (gone in text) == (gone == "INLINE "), gone
    assert "\n\n\n" not in text


def test_what_somebody_calls_stays():
    text = f"{KERNEL}vec *run(reader r)\n{{\n    return two(one()) + r(1);\n}}\n"
    assert used_only(text) == text


def test_names_in_comments_and_strings_call_nobody():
    text = (
        'static int one(void) { return 1; }\n/* one() */\nconst char *run(void) { return "one"; }\n'
    )
    assert "static" not in used_only(text)
    assert used_only("INLINE int a(void) { return a(); }\nint b;\n") == "int b;\n"


@pytest.mark.thorough
def test_compilers_find_nothing_unused(tmp_path):
    """Functions that are always inlined are hidden from warnings, unless they are like others."""
    words = "-std=gnu11 -fsyntax-only -march=sapphirerapids -fopenmp -Wall -Wunused-macros -Werror"

    def compiled(text):
        (tmp_path / "kernel.c").write_text(text)
        command = [*find_compiler().command, *words.split(), "kernel.c"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    if compiled("int one;\n").returncode:
        pytest.skip("the compiler is older than these instructions")
    texts = {name: text for name, text in everything().items() if "avx512" in name}
    for name in list(texts)[::6]:
        hidden = texts[name].replace(", unused", "")
        text, count = re.subn(r"(?<=define INLINE static).*", "", hidden)
        assert count == 1
        done = compiled(f"/* {name}\n */\n{text}")
        assert done.returncode == 0, f"{name}:\n{done.stderr}"
