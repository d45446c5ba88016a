"""README.md, docs/ and the like are programs: every block of code runs, in the order of the page.

What a fenced block means is told by its language:

    ```python   a doctest; the blocks of a page share one namespace
    ```c        a file of the page's folder, called what its first line says: /* name.c */
    ```cpp      the same, if it begins with /* name.cpp */
    ```rust     the same, if it begins with // name.rs
    ```toml     the same, if it begins with # name.toml
    ```js       the same, called as it begins: // name.mjs
    ```sh       commands, run in the page's folder; a ```text after it is what they print
    ```text     without ```sh before it: a picture made of letters
"""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from walk.pages import PAGES, ROOT, SLOW, blocks, commands

from winogen.errors import BuildError
from winogen.toolchain import find_compiler

LANGUAGES = ("python", "c", "cpp", "rust", "sh", "text", "json", "toml", "js")
# How the names of files end.
FILES = {"c": "c", "cpp": "cpp", "rust": "rs", "toml": "toml", "js": "mjs"}
SLOW_EXAMPLES = ("examples/train_low_rank.py",)  # which test_examples.py runs
# What an example needs that has the word in it. Without that it is left out, with what follows.
EXTRAS = {
    "torch": ("torch",),
    "torchao": ("torchao",),
    "onnx": ("onnx", "onnxruntime"),
    "opencl": ("pyopencl",),
}
# Programs that a machine may lack: without one the rest of a page is left out.
TOOLS = ("iverilog", "vvp", "verilator", "yosys", "c++", "cargo", "node")
# What commands of winogen need besides, that have these words.
COMPILERS = {"--host web": ("clang-16", "wasm-ld-16")}
# What differs between machines, where page and result need not agree.
MACHINE = (
    (re.compile(r"\b(avx512|avx2|sse4\.2|sse2|neon|generic)\b"), "<isa>"),
    (re.compile(r"\b[\d,]+ bytes"), "<number> bytes"),
    (re.compile(r"\b\d+ threads?\b"), "<number> threads"),
    (re.compile(r"\b[\d.]+ ms\b"), "<number> ms"),
    (re.compile(r"\berror \d\.\de-\d\d\b"), "error <number>"),
    (re.compile(r"^(  machine  ).*$", re.MULTILINE), r"\1 <record>"),
)

# Their commands take five seconds or more.
SLOW_PYTHON = ("docs/conv2d.md", "docs/numbers.md")
SLOW_SHELL = (
    "docs/accuracy.md",
    "docs/engine.md",
    "docs/engine-verilog.md",
    "docs/faster-models.md",
    "docs/fixed-point.md",
    "docs/gemm.md",
    "docs/network.md",
    "docs/standalone.md",
    "docs/tuning.md",
    "docs/verilog.md",
    "docs/web.md",
    "examples/README.md",
)
_STRICT = ("-Wall", "-Wextra", "-Werror")


def every_page(slow=()):
    """For each page; those that are slow in the thorough run."""
    return pytest.mark.parametrize("page", [
        pytest.param(page, marks=pytest.mark.thorough if page in slow else ())
        for page in sorted(PAGES)
    ])  # fmt: skip


@every_page()
def test_languages(page):
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{page}, line {block.line}: ```{block.language}"


@every_page(SLOW_PYTHON)
def test_python(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    runner = doctest.DocTestRunner(Checker())
    for block in blocks(page):
        if block.language == "python":
            if not has_extras(block.text):
                break
            parser = doctest.DocTestParser()
            test = parser.get_doctest(block.text, names, page, page, block.line - 1)
            assert test.examples, f"{page}, line {block.line}: python without >>>"
            runner.run(test, clear_globs=False)
            names = test.globs
    assert runner.failures == 0


def has_extras(text: str) -> bool:
    """Whether the frameworks are installed that an example names."""
    needed = [module for word, modules in EXTRAS.items() if word in text for module in modules]
    return all(importlib.util.find_spec(module) for module in needed)


def has_tools(script: str) -> bool:
    """Whether the simulators and the like are installed that a script calls."""
    named = [tool for tool in TOOLS if re.search(rf"\b{re.escape(tool)} ", script)]
    named += [tool for words, tools in COMPILERS.items() if words in script for tool in tools]
    return all(map(shutil.which, named))


class Checker(doctest.OutputChecker):
    """Compares what does not depend on the machine."""

    def check_output(self, want, got, optionflags):
        return super().check_output(alike(want), alike(got), optionflags)


def alike(text: str) -> str:
    """The text with what depends on the machine replaced by what it is."""
    for pattern, name in MACHINE:
        text = pattern.sub(name, text)
    return text


@every_page(SLOW_SHELL)
def test_c_and_shell(page, tmp_path):
    found = [block for block in blocks(page) if block.language in (*FILES, "sh")]
    if not found:
        return
    shell = Shell(tmp_path)
    for block in found:
        if block.language != "sh":
            name = re.match(r"(?:/\*|//|#) (\w+\.(?:[ch]|cpp|rs|toml|mjs))(?: \*/)?\n", block.text)
            if name is None and block.language != "c":
                continue
            assert name, f"{page}, line {block.line}: the first line must be /* name.c */"
            (tmp_path / name[1]).write_text(block.text)
            continue
        if not has_tools(block.text):
            break
        printed = shell("\n".join(filter(shell.is_quick, commands(block.text))))
        if block.printed is not None:
            assert alike(printed) == alike(block.printed), f"{page}, line {block.line}"
    scripts = " ".join(block.text for block in found if block.language == "sh")
    for file in (path for end in FILES.values() for path in tmp_path.glob(f"*.{end}")):
        assert file.name in scripts.split(), f"{page}: nothing is done with {file.name}"


class Shell:
    """A reader's shell: the repository's folders; winogen, python and a strict cc on the path."""

    def __init__(self, folder: Path):
        try:
            compiler = find_compiler()
        except BuildError:
            pytest.skip("no C compiler")
        for name in ("transforms", "csrc", "docs", "examples", "tests", "Makefile"):
            (folder / name).symlink_to(ROOT / name)
        tools = {
            "winogen": [sys.executable, "-c", "from winogen.cli import main; main()"],
            "python": [sys.executable],
            "cc": [*compiler.command, *_STRICT],
            "c++": [shutil.which("c++") or "c++", *_STRICT],
        }
        (folder / "bin").mkdir()
        for name, words in tools.items():
            (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            (folder / "bin" / name).chmod(0o755)
        path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
        self.folder, self.environment = folder, {**os.environ, "PATH": path, "COLUMNS": "200"}
        self._said: dict[str, str] = {}
        self.environment["WINOGEN_WISDOM"] = str(folder / "wisdom.jsonl")

    def __call__(self, script: str) -> str:
        """Run a script that must succeed; return what it prints."""
        done = subprocess.run(
            ["sh", "-e", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _help(self, group: str) -> str:
        """What a command of winogen says of itself."""
        if group not in self._said:
            self._said[group] = self(f"winogen {group} --help")
        return self._said[group]

    def is_quick(self, command: str) -> bool:
        """Whether a test may run the command; if not, it has been checked as far as that goes."""
        words = shlex.split(command, comments=True)
        while "=" in words[0]:  # CC=clang make test
            words = words[1:]
        program, *rest = words
        if program == "make":
            rules = (ROOT / "Makefile").read_text("utf-8")
            assert all(f"\n{target}:" in rules for target in rest), command
        elif program == "winogen" and {rest[0], " ".join(rest[:2])} & {*SLOW}:
            group = rest[:2] if rest[0] in ("onnx", "lab") else rest[:1]
            known = self._help(" ".join(group))
            assert all(word in known for word in rest if word.startswith("-")), command
        elif program == "python" and rest[0] in SLOW_EXAMPLES:
            assert (ROOT / rest[0]).exists(), command
        elif program == "python" and rest[0] == "-m" and rest[1].startswith("winogen_lab.nets"):
            assert importlib.util.find_spec(rest[1]), command
        elif "pytest" in command:
            paths = [word.partition("::")[0] for word in rest if word.startswith("tests/")]
            assert all((ROOT / path).exists() for path in paths), command
        else:
            return program not in ("git", "cd", "pip")
        return False


@every_page()
def test_links_lead_somewhere(page):
    """Relative links, their #sections, and the files and folders that the text names."""
    text = re.sub(
        r"^```.*?^```$", "", PAGES[page].read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for target in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text):
        if "://" in target:
            continue
        path, _, section = target.partition("#")
        linked = (PAGES[page].parent / path).resolve() if path else PAGES[page]
        assert linked.exists(), f"{page}: {target}"
        if section:
            assert section in sections(linked), f"{page}: {target}"
    folders = "winogen|csrc|transforms|tests|docs|examples|scripts"
    for name in re.findall(rf"`((?:{folders})/[\w./*-]*)`", text):
        assert list(ROOT.glob(name.rstrip("/"))), f"{page}: `{name}`"


def sections(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", sorted(page for page in PAGES if page.startswith("docs/")))
def test_the_first_line_says_for_whom_it_is(page):
    text = re.sub(r"<!--.*?-->", "", PAGES[page].read_text("utf-8"), flags=re.DOTALL)
    if page != "docs/README.md":
        assert re.match(r"\s*# .+\n\n\*For [^*\n]+\.\*\n\n", text)


def test_every_page_is_in_the_index():
    index = PAGES["docs/README.md"].read_text("utf-8")
    missing = [page for page in PAGES if page.startswith("docs/") and f"({page[5:]})" not in index]
    assert missing == ["docs/README.md"]
