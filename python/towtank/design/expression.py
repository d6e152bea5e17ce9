"""The language inside of ``${{ … }}``: a small typed one, read by recursive descent into closures.

::

    expression = either
    either     = choice  [ "if" choice "else" either ]
    choice     = both    { "or" both }
    both       = inverse { "and" inverse }
    inverse    = [ "not" ] inverse | comparison
    comparison = sum     [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
    sum        = product { ("+" | "-") product }
    product    = sign    { ("*" | "/" | "//" | "%") sign }
    sign       = ("-" | "+") sign | atom
    atom       = number | 'text' | true | false | factor | call | "(" expression ")"
    call       = function "(" expression { "," expression } ")"

Names are factors; functions are those of `operations.FUNCTIONS`. There are no attributes, no indices, no other calls:
an expression can compute a value and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from towtank.design.operations import (
    COMPARISONS,
    FUNCTIONS,
    TemplateError,
    Value,
    calculate,
    call,
    compare,
    finite,
    number,
    truth,
)
from towtank.design.problems import listing, nearest

MAX_EXPRESSION = 500
"""Characters of one expression; nobody can read a longer one."""
MAX_DEPTH = 30
"""Nesting inside one expression."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z_0-9.]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<operator>//|<=|>=|==|!=|[-+*/%()<>,]))",
    re.ASCII,
)
WORDS = frozenset({"if", "else", "and", "or", "not", "true", "false"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def unknown_name(name: str, known: Iterable[str]) -> TemplateError:
    """Make the error for a name that is no factor."""
    known = sorted(known)
    hint = nearest(name, known) or ("functions need parentheses" if name in FUNCTIONS else "")
    return TemplateError(f"unknown name {name!r} in an expression; known are {listing(known)}", hint)


Environment = Mapping[str, Value]
Term = Callable[[Environment], Value]


@dataclass(frozen=True)
class Expression:
    """A compiled expression: what it says, which factors it needs, and how to work it out."""

    text: str
    names: frozenset[str]
    evaluate: Term


def compile_expression(text: str) -> Expression:
    """Read one expression, the part between ``${{`` and ``}}``.

    Raises
    ------
    TemplateError
    """
    if len(text) > MAX_EXPRESSION:
        raise TemplateError(f"an expression of {len(text)} characters; at most {MAX_EXPRESSION} are allowed")
    parser = _Parser(text)
    term = parser.whole()
    return Expression(text.strip(), frozenset(parser.names), term)


class _Parser:
    """Recursive descent over the grammar at the head of this module; builds closures."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Term:
        if not self._tokens:
            raise TemplateError("an empty ${{ }}; write a factor's name or a calculation in it")
        term = self._either()
        if self._next < len(self._tokens):
            raise TemplateError(f"{self._peek()!r} is not expected in {self.text.strip()!r}")
        return term

    def _peek(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _kind(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take(self, *texts: str) -> str:
        """Take the next token if it is one of these operators or words."""
        if self._kind() in ("operator", "word") and self._peek() in texts:
            self._next += 1
            return self._tokens[self._next - 1][1]
        return ""

    def _need(self, text: str) -> None:
        if not self._take(text):
            found = repr(self._peek()) if self._peek() else "the end"
            raise TemplateError(f"found {found} where {text!r} is needed in {self.text.strip()!r}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TemplateError(f"an expression nested deeper than {MAX_DEPTH} levels")

    def _either(self) -> Term:
        self._deeper()
        yes = self._choice()
        if self._take("if"):
            condition = self._choice()
            self._need("else")
            no = self._either()
            self._depth -= 1
            return lambda env: yes(env) if truth(condition(env), "if") else no(env)
        self._depth -= 1
        return yes

    def _choice(self) -> Term:
        left = self._both()
        while self._take("or"):
            left = _either_of(left, self._both())
        return left

    def _both(self) -> Term:
        left = self._inverse()
        while self._take("and"):
            left = _both_of(left, self._inverse())
        return left

    def _inverse(self) -> Term:
        if self._take("not"):
            self._deeper()
            inner = self._inverse()
            self._depth -= 1
            return lambda env: not truth(inner(env), "not")
        return self._comparison()

    def _comparison(self) -> Term:
        left = self._sum()
        operator = self._take(*COMPARISONS)
        if not operator:
            return left
        right = self._sum()
        if self._take(*COMPARISONS):
            raise TemplateError("comparisons cannot be chained; write a < b and b < c")
        return _binary(operator, left, right)

    def _sum(self) -> Term:
        left = self._product()
        while operator := self._take("+", "-"):
            left = _binary(operator, left, self._product())
        return left

    def _product(self) -> Term:
        left = self._sign()
        while operator := self._take("*", "/", "//", "%"):
            left = _binary(operator, left, self._sign())
        return left

    def _sign(self) -> Term:
        operator = self._take("-", "+")
        if not operator:
            return self._atom()
        self._deeper()
        inner = self._sign()
        self._depth -= 1
        if operator == "-":
            return lambda env: -number(inner(env), "-")
        return lambda env: +number(inner(env), "+")

    def _atom(self) -> Term:
        kind, text = self._kind(), self._peek()
        if kind == "number":
            self._next += 1
            number = _literal(text)
            return lambda env: number  # noqa: ARG005
        if kind == "text":
            self._next += 1
            return lambda env: text[1:-1]  # noqa: ARG005
        if self._take("true"):
            return lambda env: True  # noqa: ARG005
        if self._take("false"):
            return lambda env: False  # noqa: ARG005
        if kind == "name":
            self._next += 1
            return self._call(text) if self._take("(") else self._name(text)
        if self._take("("):
            inner = self._either()
            self._need(")")
            return inner
        found = repr(text) if text else "the end"
        raise TemplateError(f"found {found} where a value is needed in {self.text.strip()!r}")

    def _name(self, name: str) -> Term:
        self.names.add(name)

        def look_up(environment: Environment) -> Value:
            if name in environment:
                return environment[name]
            raise unknown_name(name, environment)

        return look_up

    def _call(self, name: str) -> Term:
        if name not in FUNCTIONS:
            raise TemplateError(
                f"unknown function {name!r}; allowed are {listing(FUNCTIONS)}", nearest(name, FUNCTIONS)
            )
        arguments: list[Term] = []
        if not self._take(")"):
            arguments.append(self._either())
            while self._take(","):
                arguments.append(self._either())
            self._need(")")
        function = FUNCTIONS[name]
        least, most = function.arity
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise TemplateError(f"{name}() takes {wanted} values, found {len(arguments)}")
        return lambda env: call(name, function.work, [a(env) for a in arguments])


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if not match:
            rest = text[position:].strip()
            raise TemplateError(
                f"{rest[:20]!r} is not allowed in an expression; allowed are factors, numbers, 'text', + - * / // %, "
                f"comparisons, a if c else b, and {listing(FUNCTIONS)}"
            )
        kind = match.lastgroup or ""
        token = match.group(kind)
        tokens.append(("word" if kind == "name" and token in WORDS else kind, token))
        position = match.end()
    return tokens


def _literal(text: str) -> int | float:
    number: int | float = int(text) if text.isdigit() else float(text)
    return finite(number)


def _either_of(left: Term, right: Term) -> Term:
    return lambda env: truth(left(env), "or") or truth(right(env), "or")


def _both_of(left: Term, right: Term) -> Term:
    return lambda env: truth(left(env), "and") and truth(right(env), "and")


def _binary(operator: str, left: Term, right: Term) -> Term:
    if operator in COMPARISONS:
        return lambda env: compare(operator, left(env), right(env))
    return lambda env: calculate(operator, left(env), right(env))
