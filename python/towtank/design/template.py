"""Text with ``${{ … }}`` in it, expanded when the plan is made.

A value that is one expression keeps the expression's type; inside of other text it is written into it. `{{ … }}`
without the dollar is the engine's language and passes through untouched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from towtank.design.expression import Environment, Expression, compile_expression
from towtank.design.operations import TemplateError, Value, as_text, bounded

_OPENING = re.compile(r"\$\{\{")


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
        return bounded(text)


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
