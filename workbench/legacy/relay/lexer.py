"""Tokens of Relay text, and a cursor over them; type comments are kept aside with the token they stand before."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, NoReturn

from workbench.errors import ModelError
from workbench.escaping import plain

# In a name, ":" belongs to it unless a type follows ("%input:0: Tensor[...]"), and "/" unless it opens a comment.
_TYPE_AHEAD = r"Tensor\[|fn\b|(?:float|int|uint|bfloat)\d+\b|bool\b"
_TOKEN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<comment>/\*.*?\*/|//[^\n]*)
    | (?P<metadata>\#\[metadata\])
    | (?P<variable>%(?:[\w$@]|/(?![*/])|[.\-](?=\w)|:(?!{_TYPE_AHEAD})(?=[\w/:.]))+)
    | (?P<global>@[A-Za-z_][\w.]*)
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|nan|inf)(?:f(?:16|32|64)?|h|bf16|[iu](?:1|8|16|32|64))?(?![\w]))
    | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    | (?P<junk>\d\w*)
    | (?P<mark>->|\#\[|[()\[\]{{}}<>,;:=.?*|+&\-])
    """,
    re.VERBOSE | re.DOTALL,
)
_TYPE_COMMENT = re.compile(r"/\*\s*ty=(.*?)(?:\s+span=[^*]*)?\s*\*/", re.DOTALL)
_REMEDY = "Check that the text is complete and was printed by TVM 0.8 to 0.18 (print(module) or module.astext())."
_CLOSING = {"(": ")", "[": "]", "{": "}"}
MAX_DEPTH = 80


class Token(NamedTuple):
    """One token: its kind (a group of the pattern, or ``end``), its text and where it begins in the source."""

    kind: str
    text: str
    offset: int


class Source:
    """A text cut into tokens.

    Attributes:
        tokens: All tokens; the last one is of kind ``end``.
        type_comments: What a ``/* ty=... */`` comment says, by the index of the token that follows it.
        metadata: The text after ``#[metadata]``; empty if there is none.
    """

    def __init__(self, text: str) -> None:
        self.tokens: list[Token] = []
        self.type_comments: dict[int, str] = {}
        self.metadata = ""
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._cut(text)

    def _cut(self, text: str) -> None:
        offset = 0
        while offset < len(text):
            match = _TOKEN.match(text, offset)
            if match is None:
                self.fail(f"unexpected {text[offset]!r}", offset)
            kind = str(match.lastgroup)
            if kind == "metadata":
                self.metadata = text[match.end() :]
                break
            if kind == "comment":
                comment = _TYPE_COMMENT.fullmatch(match.group())
                if comment:
                    self.type_comments.setdefault(len(self.tokens), comment.group(1))
            elif kind != "space":
                self.tokens.append(Token(kind, match.group(), offset))
            offset = match.end()
        self.tokens.append(Token("end", "", offset))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def fail(self, what: str, offset: int) -> NoReturn:
        """Raise the `ModelError` for a fault at this place."""
        line, column = self.position(offset)
        raise ModelError(f"Relay text, line {line}, column {column}: {plain(what, 200)}.", _REMEDY)


class Cursor:
    """A place in the tokens of a source, with the few moves that a parser needs."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.index = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.source.tokens[self.index]

    @property
    def following(self) -> Token:
        """The token after the next one."""
        return self.source.tokens[min(self.index + 1, len(self.source.tokens) - 1)]

    def position(self) -> tuple[int, int]:
        """Line and column of the next token."""
        return self.source.position(self.token.offset)

    def advance(self) -> Token:
        """Take the next token, whatever it is; the end is never passed."""
        token = self.token
        if token.kind != "end":
            self.index += 1
        return token

    def at(self, text: str) -> bool:
        """Whether the next token is this mark or name."""
        return self.token.text == text and self.token.kind in ("mark", "name")

    def accept(self, text: str) -> bool:
        """Take the next token if it is this mark or name."""
        if not self.at(text):
            return False
        self.index += 1
        return True

    def expect(self, text: str) -> Token:
        """Take the next token, which must be this mark or name."""
        if not self.at(text):
            self.fail(f"expected {text!r}, found {self.describe()}")
        return self.advance()

    def expect_kind(self, kind: str) -> Token:
        """Take the next token, which must be of this kind."""
        if self.token.kind != kind:
            self.fail(f"expected a {kind}, found {self.describe()}")
        return self.advance()

    def describe(self) -> str:
        """The next token in words."""
        if self.token.kind == "end":
            return "the end of the text"
        text = self.token.text
        return repr(text if len(text) <= 40 else text[:37] + "...")

    def fail(self, what: str) -> NoReturn:
        """Raise the `ModelError` for a fault at the next token."""
        self.source.fail(what, self.token.offset)

    def enter(self) -> None:
        """Go one level deeper; too deep a nesting is refused before Python's own limit is met."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} levels of nesting")

    def leave(self) -> None:
        """Come back from `enter`."""
        self._depth -= 1

    def skip_balanced(self) -> None:
        """Skip a bracketed group, which begins at the next token."""
        waiting: list[str] = []
        while True:
            token = self.token
            if token.kind == "end":
                self.fail("a bracket is never closed")
            if token.kind == "mark" and token.text in _CLOSING:
                waiting.append(_CLOSING[token.text])
            elif token.kind == "mark" and token.text in _CLOSING.values() and token.text != waiting.pop():
                self.fail(f"unexpected {token.text!r}")
            self.advance()
            if not waiting:
                return
