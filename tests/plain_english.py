"""Finds phrases in docstrings, comments and messages that a technical writer would not use.

    python -m tests.plain_english [PATHS]

prints `file:line: rule: text` for each finding and exits with 1 when there are any. Without paths it reads all
modules of the package. Text in backticks and doctest lines are code, and are not read.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parent.parent / "src" / "regulus"
FIRST_SENTENCE_WORDS_MAX = 30

THINGS = ("batch", "broker", "client", "connection", "copy", "file", "group", "log", "master", "message", "node",
          "process", "producer", "proxy", "queue", "record", "request", "run", "server", "slave", "store", "stub",
          "task", "thread", "topic", "transaction", "worker")
"""Nouns that take `that` or `which`. A caller, an operator and a user may be people."""


class Rule(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    instead: str


class Finding(NamedTuple):
    path: Path
    line: int
    rule: str
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text} (write {self.instead})"


class Prose(NamedTuple):
    line: int
    text: str
    is_docstring: bool


def _rule(name: str, pattern: str, instead: str) -> Rule:
    """A space in the pattern is any white space: a phrase may go over the end of a line."""
    return Rule(name, re.compile(pattern.replace(" ", r"\s+")), instead)


OPENINGS = (
    _rule("begins with Of", r"Of\b", "the thing itself first: `Bytes of the body`"),
    _rule("begins with The same", r"The same\b", "what it does: `Like read(), but without waiting`"),
    _rule("begins with So", r"So\b", "the number or the thing: `At most this many bytes`"),
    _rule("begins with As", r"As\b", "the thing itself first"),
    _rule("begins with Those", r"Those\b", "the noun: `Messages that ...`"),
    _rule("begins with Who", r"Who(ever)?\b", "the noun: `The client that ...`"),
    _rule("begins with All that", r"All that\b", "the noun: `All files that ...`"),
)
"""How no docstring begins."""

PHRASES = (
    _rule("anew", r"(?i)\banew\b", "again, or from scratch"),
    _rule("beside", r"(?i)\bbeside\b", "next to, besides or together with"),
    _rule("let go", r"(?i)\blet(s|ting)? go\b", "drop, release or unmap"),
    _rule("told", r"(?i)\btold\b|\btell(s|ing)? of\b", "reported, sent, known or distinguished"),
    _rule("who for a thing", rf"(?i)\b({'|'.join(THINGS)})s? who\b", "that or which"),
    _rule("whoever", r"(?i)\bwhoever\b", "the noun: `the client that ...`"),
    _rule("nobody", r"(?i)\bnobody\b", "the noun: `no client`, `no process`; or the passive"),
    _rule("front", r"(?i)\b(a|an|its|no|our|own|the|this) front\b(?! of\b)|\bfronts\b", "proxy"),
    _rule("is none", r"(?<![Tt]here\s)\b([Ii]s|[Aa]re) none\b", "is not one, or has none"),
    _rule("is no", r"(?<![Tt]here\s)\b([Ii]s|[Aa]re) no\b(?! (doubt|less|longer|more|need|use|way|\w+er than)\b)",
          "is not a"),
    _rule("what is gone", r"(?i)\bwhat is gone\b", "what was removed"),
    _rule("sees to it", r"(?i)\bsee(s|ing|n)? to it\b", "makes sure"),
    _rule("stands", r"(?i)\bstands?\b(?! (for|by|in for)\b)", "is, or holds"),
    _rule("lies", r"(?i)\b(lies|lie|lay|lain)\b(?! (between|outside|within)\b)", "is"),
    _rule("behind for after", r"(?i)\b(byte|offset|one|place|position) behind\b", "after"),
    _rule("mend", r"(?i)\bmend(s|ed|ing)?\b", "repair or fix"),
    _rule("asker", r"(?i)\baskers?\b", "client, caller or peer"),
    _rule("hears", r"(?i)\b(hears?|heard)\b", "learns, receives or is notified"),
    _rule("go on", r"(?i)\b(go|goes|going|went|gone) on\b", "continue"),
    _rule("in vain", r"(?i)\bin vain\b", "without success"),
    _rule("but for", r"(?i)\bbut for\b", "except"),
    _rule("so many", r"(?i)\bso many\b(?! that\b)", "this many, or the number itself"),
    _rule("deed", r"(?i)\bdeeds?\b", "action, step or effect"),
)
"""Phrases that no text contains."""

_CODE = re.compile(r"`[^`]*`")
_DOCTEST = re.compile(r"^\s*(>>>|\.\.\.) .*$", re.MULTILINE)
_INDENT = re.compile(r"[ \t]*\n[ \t]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_LOG_CALLS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
_REFUSALS = frozenset({"refuse", "refused"})


def prose(source: str) -> Iterator[Prose]:
    """All docstrings, comments and messages of a module; neighbouring lines of comments are one text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Prose(node.lineno, node.value.value, True)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _messages(node.exc)
        elif isinstance(node, ast.Call):
            if _name(node.func) in _LOG_CALLS | _REFUSALS:
                yield from _messages(node)
            for keyword in node.keywords:
                if keyword.arg == "help":
                    yield from _texts(keyword.value)
    yield from _comments(source)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _messages(call: ast.Call) -> Iterator[Prose]:
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        yield from _texts(argument)


def _texts(node: ast.expr) -> Iterator[Prose]:
    """The literal text of a message; what a placeholder stands for is no prose."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield Prose(node.lineno, node.value, False)
    elif isinstance(node, ast.JoinedStr):
        yield Prose(node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "{}"
                                         for part in node.values), False)
    elif isinstance(node, ast.BinOp):
        yield from _texts(node.left)
        yield from _texts(node.right)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)


def _comments(source: str) -> Iterator[Prose]:
    first, last, column, lines = 0, 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, start = token.start
        if lines and (line != last + 1 or start != column):
            yield Prose(first, "\n".join(lines), False)
            lines = []
        if not lines:
            first = line
        last, column = line, start
        lines.append(token.string.lstrip("#").strip())
    if lines:
        yield Prose(first, "\n".join(lines), False)


def findings(path: Path) -> list[Finding]:
    return findings_in(path.read_text(encoding="utf-8"), path)


def findings_in(source: str, path: Path = Path("module.py")) -> list[Finding]:
    """What breaks a rule in a module, in the order of its lines."""
    found = []
    for line, text, is_docstring in prose(source):
        text = _INDENT.sub("\n", _CODE.sub(_blank, _DOCTEST.sub(_blank, text)))
        if is_docstring:
            found += _opening_findings(path, line, text)
        for rule in PHRASES:
            for match in rule.pattern.finditer(text):
                found.append(Finding(path, line + text.count("\n", 0, match.start()), rule.name,
                                     _around(text, match.start(), match.end()), rule.instead))
    return sorted(found, key=lambda finding: finding.line)


def _opening_findings(path: Path, line: int, text: str) -> Iterator[Finding]:
    beginning = text.lstrip()
    for rule in OPENINGS:
        if rule.pattern.match(beginning):
            yield Finding(path, line, rule.name, _around(beginning, 0, 0), rule.instead)
    words = len(first_sentence(text).split())
    if words > FIRST_SENTENCE_WORDS_MAX:
        yield Finding(path, line, "long first sentence", f"{words} words: {_around(beginning, 0, 0)}",
                      f"at most {FIRST_SENTENCE_WORDS_MAX} words, and the rest as sentences of its own")


def first_sentence(text: str) -> str:
    """The text up to the first full stop, or to the end of its paragraph."""
    paragraph = text.strip().split("\n\n")[0]
    return _SENTENCE_END.split(" ".join(paragraph.split()))[0]


def _blank(match: re.Match[str]) -> str:
    """One word in the place of code, on as many lines as it had."""
    return "`code`" + "\n" * match.group().count("\n")


def _around(text: str, start: int, end: int) -> str:
    return " ".join(text[max(0, start - 40):end + 50].split())


def modules(paths: list[Path]) -> list[Path]:
    """The modules below some paths, in order. Raises FileNotFoundError for a path that does not exist."""
    found = []
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def main(arguments: list[str]) -> int:
    paths = [Path(text) for text in arguments] or [SOURCE]
    found = [finding for path in modules(paths) for finding in findings(path)]
    for finding in found:
        print(finding)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
