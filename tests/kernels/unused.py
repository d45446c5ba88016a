"""Functions, macros, types and constants of a text of C that nothing in it uses."""

import re

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
# A function begins in the first column and ends with a brace there, unless all is in one line.
_FUNCTION = re.compile(
    r"^(?P<head>[A-Za-z_][^;{}#\n=]*?\b(?P<name>\w+)\((?:[^;{}]*?)\)[^;{}]*?)\n?(?P<body>\{\n.*?^\}|\{[^\n]*\}$)",
    re.M | re.S,
)
_MACRO = re.compile(r"^#define (?P<name>\w+)(?P<body>(?:[^\n]*\\\n)*[^\n]*)$", re.M)


def unused(text):
    """Names of static functions and macros that no exported function of a text reaches."""
    text = _STRING.sub('""', _COMMENT.sub(" ", text))
    pieces = {}  # name -> (body, whether others see it)
    rest = text
    for pattern in (_MACRO, _FUNCTION):
        for found in pattern.finditer(rest):
            name = found["name"]
            seen = pattern is _FUNCTION and not re.match(r"static|INLINE|NOINLINE", found["head"])
            body, exported = pieces.get(name, ("", False))
            whole = found[0] if pattern is _FUNCTION else found["body"]
            pieces[name] = (f"{body} {whole}", exported or seen)
        rest = pattern.sub(" ", rest)
    words = {name: set(re.findall(r"\w+", body)) - {name} for name, (body, _) in pieces.items()}
    # Macros that paste names: whatever begins or ends like a pasted word may be meant.
    waiting = [name for name, (_, exported) in pieces.items() if exported]
    waiting += [word for word in set(re.findall(r"\w+", rest)) if word in pieces]
    reached = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [word for word in words[name] if word in pieces]
    return sorted(set(pieces) - reached)
