"""A C compiler that remembers what it made: the programs of the folder that `compilers` fills.

Called as a compiler is, it looks for an earlier run that must have made the same file: of the same
compiler, words, preprocessed sources, objects and libraries. It then copies that file and repeats
the warnings. Whatever is not one plain compile or link to one file goes to the compiler as it is,
and so does all that goes wrong here.

It imports nothing of winogen's and little of Python's, since it runs thousands of times.
"""

import hashlib
import os
import subprocess
import sys
from contextlib import suppress

# What writes, or reads, more than one can see.
OPAQUE = ("-E", "-M", "-x", "-###", "-save-temps", "--coverage", "-fprofile", "-fsyntax-only",
          "-fdump", "-fstack-usage", "-fcallgraph-info", "-gsplit-dwarf", "@", "-print", "-dump",
          "--version", "-v", "--help", "-Wl,-Map")  # fmt: skip
# Their next word belongs to them. What folders of headers have is in the preprocessed text.
HEADERS = ("-I", "-iquote", "-isystem", "-idirafter", "-include")
PAIRS = (
    *HEADERS,
    "-D",
    "-U",
    "-L",
    "-l",
    "-T",
    "-Xlinker",
    "-Xassembler",
    "-target",
    "-arch",
    "-u",
)
VARIABLES = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
             "LC_ALL", "LANG", "SOURCE_DATE_EPOCH")  # fmt: skip
LIBRARIES = ("libgcc.a", "libc.a")  # one of each package that programs are linked from


def main(real: str, store: str) -> None:
    """Run the compiler, or repeat an earlier run that is kept in the folder ``store``."""
    words = sys.argv[1:]
    try:
        plan = read(words)
        # Kernels of the test cache are kept by winogen itself.
        if plan is None or os.getcwd().startswith(os.path.dirname(store)):
            kept = None
        else:
            output, sources, rest, flags = plan
            key = digest(real, words, output, sources, rest, flags)
            kept = key and os.path.join(store, key[:2], key)
        if kept and repeat(kept, output):
            sys.exit(0)
    except OSError:
        kept = None
    if kept is None:
        os.execv(real, [real, *words])
    done = subprocess.run([real, *words], stderr=subprocess.PIPE)
    sys.stderr.buffer.write(done.stderr)
    if done.returncode == 0:
        with suppress(OSError):
            keep(kept, output, done.stderr)
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


def read(words):
    """Return output, sources, all other words, flags of the preprocessor; None if not plain."""
    if any(word == "-" or word.startswith(OPAQUE) for word in words):
        return None
    output, sources, rest, flags, left = None, [], [], [], iter(words)
    for word in left:
        if word == "-o":
            if output is not None:
                return None
            output = next(left, None)
        elif word.startswith("-o") or word.endswith((".h", ".s", ".S", ".cc", ".cpp", ".gch")):
            return None
        elif word.endswith(".c") and not word.startswith("-"):
            sources.append(word)
        elif word in PAIRS:
            value = next(left, "")
            flags += [word, value] if word in (*HEADERS, "-D", "-U", "-target") else []
            rest += [word] if word in HEADERS else [word, value]
        elif word.startswith("-"):
            flags += [] if word.startswith(("-Wl,", "-l", "-L")) or word in ("-c", "-S") else [word]
            rest += [] if word.startswith(HEADERS) else [word]
        else:
            rest.append(word)
    if output is None and "-c" in words and len(sources) == 1:
        output = os.path.basename(sources[0])[:-2] + ".o"
    return (output, sources, rest, flags) if output and (sources or rest) else None


def digest(real, words, output, sources, rest, flags):
    """Return the digest of all that the output follows from; None where that cannot be seen."""
    status = os.stat(real)
    parts = [os.path.realpath(real), status.st_size, status.st_mtime_ns, os.path.basename(real)]
    parts += [rest, [(name, os.environ.get(name)) for name in VARIABLES]]
    if any("native" in word for word in words):
        with open("/proc/cpuinfo") as file:
            parts.append(next((line for line in file if line.startswith("flags")), ""))
    if "-c" not in words and "-S" not in words:
        machine = [word for word in flags if word.startswith(("-m", "--target", "--sysroot"))]
        specs = [word.split("=")[1] for word in rest if "specs=" in word]
        for library in (*LIBRARIES, *specs):
            parts.append(stamp(ask(real, *machine, f"-print-file-name={library}").decode().strip()))
    sha = hashlib.sha256(placeless(repr(parts).encode()))
    for piece in pieces(rest):
        if os.path.isfile(piece):
            with open(piece, "rb") as file:
                sha.update(hashlib.sha256(file.read()).digest())
    for source in sources:
        text = ask(real, *flags, "-E", source)
        if not text or b".incbin" in text or b".include" in text:
            return None
        text = placeless(text)
        if folder := os.path.dirname(source).encode():
            text = text.replace(folder, b".")
        sha.update(hashlib.sha256(text).digest())
    return sha.hexdigest()


def placeless(text):
    """Return a text without the names of this folder, and of that which it is in.

    pytest numbers them; tests of one run share headers and objects in the outer one.
    """
    here = os.getcwd().encode()
    outer = os.path.dirname(here)
    text = text.replace(here, b".")
    return text.replace(outer, b"..") if outer.count(b"/") > 1 else text


def pieces(words):
    """Yield each name that a word may have of a file, and files of -l in folders of -L."""
    text = " ".join(words).replace("-L ", "-L").replace("-l ", "-l").split()
    folders = [word[2:] for word in text if word.startswith("-L")]
    for word in words:
        yield from word.replace("=", ",").split(",")
    for word in text:
        if word.startswith("-l"):
            for folder in folders:
                yield from (os.path.join(folder, f"lib{word[2:]}.{end}") for end in ("a", "so"))


def ask(real, *words):
    """Return what the compiler prints, nothing where it fails."""
    done = subprocess.run([real, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout if done.returncode == 0 else b""


def stamp(path):
    """Return what changes with a file of the system."""
    try:
        status = os.stat(path)
        return os.path.realpath(path), status.st_size, status.st_mtime_ns
    except OSError:
        return None


def repeat(kept, output):
    """Copy the kept file to the output and print its warnings; whether there is one."""
    try:
        with open(kept, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return False
    mode, length, rest = data.split(b"\n", 2)
    warnings, product = rest[: int(length)], rest[int(length) :]
    if os.path.lexists(output):
        os.unlink(output)
    with open(output, "wb") as file:
        file.write(product)
    os.chmod(output, int(mode, 8))
    os.utime(kept)
    sys.stderr.buffer.write(warnings)
    return True


def keep(kept, output, warnings):
    """Keep the output, in one file that nobody sees in part."""
    with open(output, "rb") as file:
        product = file.read()
    mode = os.stat(output).st_mode & 0o777
    os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
    draft = f"{kept}.{os.getpid()}"
    with open(draft, "wb") as file:
        file.write(b"%o\n%d\n" % (mode, len(warnings)) + warnings + product)
    os.replace(draft, kept)
