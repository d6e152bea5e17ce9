"""``${{ … }}``: a small typed language for values that depend on factors, expanded when the plan is made.

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

Names are factors; functions are those of `FUNCTIONS`. There are no attributes, no indices, no other calls: an
expression can compute a value and nothing else. `{{ … }}` without the dollar is the engine's language and passes
through untouched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from towtank.design.problems import listing, nearest, shown

Value = bool | int | float | str

MAX_EXPRESSION = 500
"""Characters of one expression; nobody can read a longer one."""
MAX_DEPTH = 30
"""Nesting inside one expression."""
MAX_TEXT = 10_000
"""Characters of an expanded value."""
MAX_NUMBER = 10**18
"""Largest magnitude of a whole number; no size, rate or duration needs more."""

_OPENING = re.compile(r"\$\{\{")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?![A-Za-z_0-9.]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<operator>//|<=|>=|==|!=|[-+*/%()<>,]))",
    re.ASCII,
)
_WORDS = frozenset({"if", "else", "and", "or", "not", "true", "false"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TemplateError(ValueError):
    """An expression cannot be read or has no value; the message says what is allowed.

    Parameters
    ----------
    message : str
    hint : str
        The nearest known name or the next step; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


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


@dataclass(frozen=True)
class Template:
    """Text with expressions in it.

    Parameters
    ----------
    parts : tuple of str or Expression
        In order. A single expression without text around it keeps its type.
    names : frozenset of str
        Every factor that is needed.
    """

    parts: tuple[str | Expression, ...]
    names: frozenset[str]

    def expand(self, environment: Environment) -> Value:
        """Work the template out for one treatment.

        Raises
        ------
        TemplateError
            An unknown name, a wrong type, a division by zero or a number without bounds.
        """
        if len(self.parts) == 1 and isinstance(self.parts[0], Expression):
            return self.parts[0].evaluate(environment)
        text = "".join(
            part if isinstance(part, str) else as_text(part.evaluate(environment)) for part in self.parts
        )
        return _bounded(text)


def has_template(text: str) -> bool:
    """Tell whether there is a ``${{`` in a text."""
    return "${{" in text


@lru_cache(maxsize=4096)
def compile_template(text: str) -> Template:
    """Read a text with ``${{ … }}`` in it.

    Raises
    ------
    TemplateError
        An expression is not closed, too long, or not in the language.
    """
    parts: list[str | Expression] = []
    position = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < position:
            raise TemplateError("a ${{ stands inside another one; close the first with }}")
        closing = _closing(text, opening.end())
        if closing < 0:
            raise TemplateError("a ${{ is never closed; write ${{ … }}")
        if opening.start() > position:
            parts.append(text[position : opening.start()])
        parts.append(compile_expression(text[opening.end() : closing]))
        position = closing + 2
    if position < len(text):
        parts.append(text[position:])
    names = frozenset[str]().union(*(p.names for p in parts if isinstance(p, Expression)))
    return Template(tuple(parts), names)


def _closing(text: str, start: int) -> int:
    """Find the ``}}`` that ends an expression, not one inside of quotes; −1 without one."""
    quote = ""
    for index in range(start, len(text)):
        character = text[index]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif text.startswith("}}", index):
            return index
    return -1


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


def as_text(value: Value) -> str:
    """Write a value into text: booleans as YAML does, whole numbers without a trailing ``.0``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


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
            return lambda env: yes(env) if _truth(condition(env), "if") else no(env)
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
            return lambda env: not _truth(inner(env), "not")
        return self._comparison()

    def _comparison(self) -> Term:
        left = self._sum()
        operator = self._take(*_COMPARISONS)
        if not operator:
            return left
        right = self._sum()
        if self._take(*_COMPARISONS):
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
            return lambda env: -_number(inner(env), "-")
        return lambda env: +_number(inner(env), "+")

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
        return lambda env: _checked(name, function.work, [a(env) for a in arguments])


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
        tokens.append(("word" if kind == "name" and token in _WORDS else kind, token))
        position = match.end()
    return tokens


def _literal(text: str) -> int | float:
    number: int | float = int(text) if text.isdigit() and len(text) < 20 else float(text)
    return _finite(number)


def _truth(value: Value, what: str) -> bool:
    if isinstance(value, bool):
        return value
    raise TemplateError(f"`{what}` needs true or false, such as a comparison; found {shown(value)}")


def _number(value: Value, what: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TemplateError(f"`{what}` needs a number; found {shown(value)}")
    return value


def _finite(value: int | float) -> int | float:  # noqa: PYI041 - the distinction matters here
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TemplateError("the result of an expression is not a finite number")
    elif abs(value) > MAX_NUMBER:
        raise TemplateError(f"a whole number beyond ±{MAX_NUMBER:.0e} in an expression")
    return value


def _bounded(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise TemplateError(f"an expanded text of {len(text)} characters; at most {MAX_TEXT:,} are allowed")
    return text


def _either_of(left: Term, right: Term) -> Term:
    return lambda env: _truth(left(env), "or") or _truth(right(env), "or")


def _both_of(left: Term, right: Term) -> Term:
    return lambda env: _truth(left(env), "and") and _truth(right(env), "and")


_ARITHMETIC: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
_COMPARISONS: dict[str, Callable[[int | float | str, int | float | str], bool]] = {
    "<": lambda a, b: a < b,  # type: ignore[operator]  # `_compare` has made sure that both are alike
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def _binary(operator: str, left: Term, right: Term) -> Term:
    if operator in _COMPARISONS:
        return lambda env: _compare(operator, left(env), right(env))
    return lambda env: _calculate(operator, left(env), right(env))


def _compare(operator: str, a: Value, b: Value) -> bool:
    alike = isinstance(a, str) == isinstance(b, str) and isinstance(a, bool) == isinstance(b, bool)
    if not alike:
        raise TemplateError(
            f"{shown(a)} and {shown(b)} cannot be compared with {operator!r}: one type on both sides"
        )
    return _COMPARISONS[operator](a, b)


def _calculate(operator: str, a: Value, b: Value) -> Value:
    if operator == "+" and isinstance(a, str) and isinstance(b, str):
        return _bounded(a + b)
    if isinstance(a, str) != isinstance(b, str) and operator == "+":
        raise TemplateError(f"{shown(a)} + {shown(b)} mixes text and a number; write str(…) or int(…)")
    x, y = _number(a, operator), _number(b, operator)
    try:
        return _finite(_ARITHMETIC[operator](x, y))
    except ZeroDivisionError:
        raise TemplateError(f"division by zero: {x} {operator} {y}") from None
    except OverflowError:
        raise TemplateError("the result of an expression is not a finite number") from None


@dataclass(frozen=True)
class Function:
    """One function of the language: how many values it takes and what it does."""

    arity: tuple[int, int]
    work: Callable[..., Value]
    explanation: str


def _round(value: float, digits: int = 0) -> Value:
    if isinstance(digits, float) or abs(digits) > 15:
        raise TemplateError(f"round() takes whole digits from -15 to 15, found {shown(digits)}")
    return round(value, digits) if digits else round(value)


def _extreme(choose: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *values: choose(_number(v, choose.__name__) for v in values)


FUNCTIONS: dict[str, Function] = {
    "min": Function((2, 10), _extreme(min), "the smallest of some numbers"),
    "max": Function((2, 10), _extreme(max), "the largest of some numbers"),
    "round": Function(
        (1, 2), lambda v, d=0: _round(_number(v, "round"), d), "to a whole number, or to some digits"
    ),
    "ceil": Function((1, 1), lambda v: math.ceil(_number(v, "ceil")), "up to a whole number"),
    "floor": Function((1, 1), lambda v: math.floor(_number(v, "floor")), "down to a whole number"),
    "int": Function((1, 1), int, "a number or text as a whole number"),
    "float": Function((1, 1), float, "a number or text as a number"),
    "str": Function((1, 1), as_text, "a value as text"),
}


def _checked(name: str, work: Callable[..., Value], values: list[Value]) -> Value:
    try:
        result = work(*values)
    except TemplateError:
        raise
    except (ValueError, OverflowError, TypeError):
        raise TemplateError(f"{name}() cannot make anything of {listing(shown(v) for v in values)}") from None
    if isinstance(result, int | float):
        return result if isinstance(result, bool) else _finite(result)
    return _bounded(result)
