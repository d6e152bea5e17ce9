"""The `openwhisk` platform's part of an experiment file: actions, how they are limited, and how requests reach them."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from towtank.fields import Duration, Model, Size, Slug, Whole
from towtank.platforms import placeholders
from towtank.platforms.external_config import Address
from towtank.platforms.kubernetes.config import LocalPath
from towtank.platforms.readiness import Ready
from towtank.platforms.target_transport import DEFAULT_TARGET, OwnTransport, TargetsTransport
from towtank.platforms.transport import Headers

MIB = 1 << 20
KINDS = {
    ".js": "nodejs:default", ".py": "python:default", ".go": "go:default", ".rb": "ruby:default",
    ".php": "php:default", ".swift": "swift:default", ".jar": "java:default",
}  # fmt: skip
"""Kind of an action by the end of its file's name, as OpenWhisk's own command line has it."""
BINARY = (".zip", ".jar")
MOST_CODE_BYTES = 48 * MIB
"""Published limit of an action's code as it is sent (docs/reference.md, codeSize)."""
API_TARGET = "api"
"""Name of the only target where no action is a web action."""

Name = Annotated[str, Field(pattern=r"^\w([\w@.-]{0,126}[\w@.-])?$")]
"""Of an action, trigger or rule: as OpenWhisk has it, without blanks."""


def _whole_mib(value: int) -> int:
    if value % MIB:
        raise ValueError(f"{value} bytes are no whole number of MiB, which is all that OpenWhisk takes here")
    return value


def _whole_ms(value: float) -> float:
    if not (value * 1000).is_integer():
        raise ValueError(f"{value:g} s is no whole number of milliseconds")
    return value


Mebibytes = Annotated[Size, AfterValidator(_whole_mib)]


class Action(Model):
    """Code, an image, or a sequence of other actions; a limit that is not given is OpenWhisk's own."""

    code: LocalPath | None = Field(
        None, description="file in the experiment's folder: source, or a .zip or .jar that is sent as it is"
    )
    kind: str | None = Field(
        None,
        min_length=1,
        description="runtime, such as nodejs:20; without it by the file's name, its default version",
    )
    main: str | None = Field(None, min_length=1, description="function to be called, where it is not `main`")
    image: str | None = Field(
        None, min_length=1, description="container image, instead of `kind`; with or without `code`"
    )
    sequence: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="actions of the deployment by name, or others as /NAMESPACE/PACKAGE/NAME",
    )
    web: bool | Literal["raw"] = Field(
        default=False,
        description="reached without a key as a web action; `raw` hands the request over as it is",
    )
    memory: Mebibytes | None = Field(None, ge=MIB, description="of a container")
    timeout: Annotated[Duration, AfterValidator(_whole_ms)] | None = Field(
        None, gt=0, description="longest run"
    )
    logs: Mebibytes | None = Field(None, description="most that is kept of its output")
    concurrency: Whole | None = Field(
        None, ge=1, le=500, description="runs that one container takes at a time"
    )
    parameters: dict[str, Any] = Field({}, description="parameters that each run gets")
    annotations: dict[str, Any] = Field({}, description="further annotations")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.sequence is not None:
            others = [key for key in ("code", "kind", "main", "image") if getattr(self, key) is not None]
            if others:
                raise ValueError(f"`sequence` and `{others[0]}` exclude each other")
            limits = [
                key for key in ("memory", "timeout", "logs", "concurrency") if getattr(self, key) is not None
            ]
            if limits:
                raise ValueError(f"a sequence has no `{limits[0]}` of its own: its actions have")
            return self
        if self.code is None and self.image is None:
            raise ValueError("needs one of `code`, `image` and `sequence`; found none of them")
        if self.image is not None and self.kind is not None:
            raise ValueError("`image` and `kind` exclude each other: an image is its own runtime")
        if self.image is None and self.exec_kind is None:
            raise ValueError(
                f"`kind` is missing: {self.code!r} does not say by its name what it is; known are {', '.join(KINDS)}"
            )
        if self.main is None and self.code is not None and Path(self.code).suffix == ".jar":
            raise ValueError("`main` is missing: of a .jar the class must be named")
        return self

    @property
    def exec_kind(self) -> str | None:
        """What OpenWhisk is told that it is; None where nothing says it."""
        if self.sequence is not None:
            return "sequence"
        if self.image is not None:
            return "blackbox"
        return self.kind or KINDS.get(Path(self.code or "").suffix)


class Rule(Model):
    """What happens when a trigger is fired."""

    trigger: Name = Field(description="a trigger of the deployment")
    action: Name = Field(description="an action of the deployment")


class Trigger(Model):
    """What rules listen to; it is fired by requests to the target that leads to the API."""

    parameters: dict[str, Any] = Field({}, description="parameters that each firing gets")


class OpenWhiskTarget(OwnTransport):
    """A web action by its address, or the API, where requests carry the key."""

    web: Name | None = Field(None, description="name of a web action of the deployment")
    extension: Literal["http", "json", "html", "svg", "text"] = Field(
        "http", description="what a web action's result is turned into"
    )
    api: Literal["actions", "triggers"] | None = Field(
        None,
        description="requests go to the API with the key: POST /NAME?blocking=true runs an action, POST /NAME fires a "
        "trigger",
    )
    headers: Headers | None = Field(None, description="sent with every request, instead of the deployment's")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.web is None) == (self.api is None):
            found = "none of them" if self.web is None else "both"
            raise ValueError(f"needs exactly one of `web` and `api`; found {found}")
        if self.api is not None and any(name.lower() == "authorization" for name in self.headers or {}):
            raise ValueError("`api` brings its own header `authorization`, from the key")
        return self


def _as_target(value: object) -> object:
    return {"web": value} if isinstance(value, str) else value


AnyTarget = Annotated[
    OpenWhiskTarget, BeforeValidator(_as_target, json_schema_input_type=str | OpenWhiskTarget)
]


class OpenWhiskReady(Ready):
    """When the deployment counts as ready; running actions makes them warm."""

    invoke: bool = Field(
        default=False,
        description="run every action once, with its own parameters: one that does not start is told with its reason",
    )


class OpenWhiskConfig(TargetsTransport):
    """Actions on an OpenWhisk that is already there. What Towtank created, and nothing else, is removed at the end.

    Without `targets` each web action is one by its name; the only one is `app`, too. Without web actions it is `api`.
    """

    platform: Literal["openwhisk"] = Field(description="actions on OpenWhisk")
    url: Address = Field(description="address of the API host", examples=["https://openwhisk.example"])
    auth: Annotated[str, AfterValidator(placeholders.only_secret)] = Field(
        description="{env.NAME} or {file.PATH}, with USER:KEY in it", examples=["{env.OPENWHISK_AUTH}"]
    )
    namespace: Annotated[str, Field(pattern=r"^\w([\w@ .-]*[\w@.-])?$")] = Field(
        "_", description="namespace that exists; `_` is the one that the key belongs to"
    )
    actions: dict[Name, Action] = Field(
        min_length=1, description="actions by name; they are put into a package of their own"
    )
    triggers: dict[Name, Trigger] = Field({}, description="triggers by name")
    rules: dict[Name, Rule] = Field({}, description="rules by name: which action a trigger runs")
    targets: dict[Slug, AnyTarget] | None = Field(
        None, min_length=1, description="target → web action, or how it is reached"
    )
    headers: Headers = Field(
        default_factory=dict, description="sent with every request; {env.NAME} and {file.PATH} take secrets"
    )
    ready: OpenWhiskReady = Field(
        OpenWhiskReady(),
        description="when the deployment counts as ready; `http` runs web actions, so that they are warm",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        try:
            self.in_order()
        except CycleError as error:
            circle = " → ".join(error.args[1])
            raise ValueError(f"a sequence contains itself: {circle}") from error
        for name, action in self.actions.items():
            unknown = [
                one for one in action.sequence or () if not one.startswith("/") and one not in self.actions
            ]
            if unknown:
                raise ValueError(
                    f"the sequence {name!r} names {unknown[0]!r}, which is no action of the deployment"
                )
        for name, rule in self.rules.items():
            for kind, one, known in (
                ("trigger", rule.trigger, self.triggers),
                ("action", rule.action, self.actions),
            ):
                if one not in known:
                    raise ValueError(f"the rule {name!r} names {one!r}, which is no {kind} of the deployment")
        for name, target in self.resolved().items():
            if target.web is not None and (
                target.web not in self.actions or not self.actions[target.web].web
            ):
                raise ValueError(
                    f"the target {name!r} names {target.web!r}, which is no web action of the deployment"
                )
            if target.api is not None and self.ready.http is not None:
                raise ValueError(
                    f"`ready.http` cannot be asked of the target {name!r}: the API runs nothing by GET"
                )
            self.transport_of(name).check_addresses([self.url])
        if self.url.startswith("unix:"):
            raise ValueError(f"`url` is {self.url!r}; allowed is http://HOST[:PORT] or https://HOST[:PORT]")
        return self

    def resolved(self) -> dict[str, OpenWhiskTarget]:
        """Target → how it is reached, also of those that are not written."""
        if self.targets is not None:
            return dict(self.targets)
        web = [name for name, action in self.actions.items() if action.web]
        if not web:
            return {API_TARGET: OpenWhiskTarget(api="actions")}
        names = [DEFAULT_TARGET] if len(web) == 1 else web
        return {target: OpenWhiskTarget(web=name) for target, name in zip(names, web, strict=True)}

    def in_order(self) -> list[str]:
        """Names of actions, each behind those that it is made of."""
        return list(
            TopologicalSorter(
                {
                    name: [one for one in action.sequence or () if one in self.actions]
                    for name, action in self.actions.items()
                }
            ).static_order()
        )

    def target_names(self) -> tuple[str, ...]:
        """Targets that journeys can name."""
        return tuple(self.resolved())

    def file_sections(self) -> Iterator[tuple[str | int, ...]]:
        """Key paths of the files that the deployment is made of."""
        for name, action in self.actions.items():
            if action.code is not None:
                yield "actions", name, "code"

    def file_problems(self, root: Path) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """What is wrong with the actions' files: key path and words."""
        from towtank.platforms.openwhisk.entities import code_problem  # noqa: PLC0415 - only when there are files

        for name, action in self.actions.items():
            words = code_problem(action, root)
            if words:
                yield ("actions", name, "code"), words

    def _secrets(self) -> Iterator[str]:
        yield self.auth
        yield from super()._secrets()
