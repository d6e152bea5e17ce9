"""What one virtual user does: steps, one after another, chosen, repeated or once only."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator

from towtank.design.request_model import Identifier, Json, Request, Weight, pair
from towtank.design.think import Think
from towtank.fields import Model, Whole

MOST_TIMES = 1_000_000
"""Rounds of a `repeat`."""


class Option(Model):
    """One alternative of a `choose`."""

    weight: Weight = Field(1.0, description="how often, in relation to the other weights")
    steps: tuple[Step, ...] = Field(min_length=1, description="what happens when it is chosen")


class Choose(Model):
    """One of several alternatives, drawn by weight each time."""

    choose: tuple[Option, ...] = Field(min_length=1, description="the alternatives")


class Once(Model):
    """Steps of the first iteration of each session, such as signing in; tried again until they end well."""

    once: tuple[Step, ...] = Field(min_length=1, description="the steps")


class Group(Model):
    """Steps that belong together, for readers."""

    sequence: tuple[Step, ...] = Field(min_length=1, description="the steps")


class Repetition(Model):
    """How often what is repeated."""

    times: Annotated[
        tuple[Whole, Whole], BeforeValidator(pair, json_schema_input_type=Whole | tuple[Whole, Whole])
    ] = Field(description="a number, or the smallest and the largest, drawn evenly each time")
    steps: tuple[Step, ...] = Field(min_length=1, description="what is repeated")

    @field_validator("times")
    @classmethod
    def _in_order(cls, times: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= times[0] <= times[1] <= MOST_TIMES or times[1] == 0:
            asked = f"{times[0]} to {times[1]}" if times[0] != times[1] else str(times[0])
            raise ValueError(
                f"{asked} times: allowed are numbers from 0 to {MOST_TIMES:,}, the smaller first, "
                "and not 0 alone"
            )
        return times


class Repeat(Model):
    """Steps that are repeated."""

    repeat: Repetition = Field(description="how often what is repeated")


class Condition(Model):
    """Steps that depend on a value."""

    condition: str = Field(
        min_length=1,
        description="a template; true is anything but empty, `false`, `0` and `none`",
        examples=["{{ iteration > 0 }}"],
    )
    steps: tuple[Step, ...] = Field(min_length=1, description="what happens when it is true")
    else_: tuple[Step, ...] = Field((), alias="else", description="what happens otherwise")


class If(Model):
    """Steps that depend on a value."""

    if_: Condition = Field(alias="if", description="the condition, and the steps")


class Pause(Model):
    """A wait of its own."""

    pause: Think = Field(description="how long")


_KINDS: dict[str, type[Model]] = {
    "choose": Choose, "once": Once, "sequence": Group, "repeat": Repeat, "if": If, "pause": Pause,
}  # fmt: skip
STEP_KEYS = tuple(_KINDS)
"""Keys by which a step that is no request is known."""


def _step_kind(value: object) -> str:
    for key, model in _KINDS.items():
        if isinstance(value, model) or (isinstance(value, dict) and key in value):
            return f"@{model.__name__}"
    return "@Request"


Step = Annotated[
    Annotated[Request, Tag("@Request")]
    | Annotated[Choose, Tag("@Choose")]
    | Annotated[Once, Tag("@Once")]
    | Annotated[Group, Tag("@Group")]
    | Annotated[Repeat, Tag("@Repeat")]
    | Annotated[If, Tag("@If")]
    | Annotated[Pause, Tag("@Pause")],
    Discriminator(_step_kind),
]


class Journey(Model):
    """What one virtual user does in one iteration."""

    steps: tuple[Step, ...] = Field(min_length=1, description="requests and more, one after another")
    think: Think | None = Field(None, description="wait after each request")
    cookies: bool = Field(default=True, description="keep cookies, for as long as the session lasts")
    variables: dict[Identifier, Json] = Field({}, description="constants for templates")


for _model in (Option, Choose, Once, Group, Repetition, Repeat, Condition, If, Journey):
    _model.model_rebuild()
