"""The `local` platform's part of an experiment file: processes on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from towtank.fields import Cores, Duration, Model, Size, Slug, Whole
from towtank.platforms import placeholders
from towtank.platforms.local_programs import Missing, missing
from towtank.platforms.output import DEFAULT_LOG_LIMIT_BYTES
from towtank.platforms.readiness import Ready
from towtank.platforms.scaling.config import Scaling
from towtank.platforms.transport import PLAIN, Tls, Transport

DEFAULT_COMPONENT = "app"
DEFAULT_GRACE_S = 5.0
MAX_REPLICAS = 1000
"""Far beyond what one machine runs; stops a typing error before it becomes a fork bomb."""
LEAST_MEMORY_BYTES = 1 << 20
"""No process starts in less; a smaller number is a forgotten unit."""
LAST_PORT = 65535

_RESERVED_VARIABLES = {"TOWTANK_TOKEN"}
"""Set by the guard: it is how our processes are told from foreign ones."""


def split_command(value: object) -> tuple[str, ...]:
    """Read a command: a list of words, or one string that is split as a shell would, without a shell.

    Raises
    ------
    ValueError
        Empty, an unclosed quote, or a word that is neither text nor a number.
    """
    if isinstance(value, str):
        try:
            words: Sequence[object] = shlex.split(value)
        except ValueError as error:
            raise ValueError(
                f"{value!r} cannot be split into words: {str(error).lower()}; allowed is a list of words, "
                "or one string with closed quotes"
            ) from error
    elif isinstance(value, list | tuple):
        words = list(value)
    else:
        raise ValueError(f"{value!r} is not a command; allowed is a list of words, or one string")
    if not words or words[0] == "":
        raise ValueError("the command is empty; its first word is the program")
    return tuple(_word(word) for word in words)


def _word(value: object) -> str:
    """Accept numbers as words; a bare true or no is more often an accident than a wish."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not text; put it in quotes")
    if "\0" in str(value):
        raise ValueError("a NUL character cannot be passed to a program")
    return str(value)


Command = Annotated[
    tuple[str, ...], BeforeValidator(split_command, json_schema_input_type=str | list[str | int | float])
]
"""A command: list of words, or one string that is split like in a shell."""
Text = Annotated[str, BeforeValidator(_word, json_schema_input_type=str | int | float)]
"""Text; a number is taken as it is written."""


class Limits(Model):
    """Upper bounds of each instance, set by control groups; where that is not permitted, the report says so."""

    cpu: Cores | None = Field(None, description="cores that an instance may use", examples=["500m", 1.5])
    memory: Size | None = Field(
        None,
        ge=LEAST_MEMORY_BYTES,
        description="memory of an instance; beyond it the kernel ends it, which is a result: oom_killed",
        examples=["256MiB"],
    )


class Stop(Model):
    """How an instance is asked to end."""

    signal: Literal["TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "KILL"] = Field(
        "TERM", description="signal that asks the process to end"
    )
    grace: Duration = Field(
        DEFAULT_GRACE_S, description="time until what is still there gets SIGKILL, children included"
    )


class ProcessSettings(Transport):
    """What is said of a process besides its command. With `tls` its instances are reached over https."""

    env: dict[str, Text] = Field(
        default_factory=dict,
        description="environment variables, besides PORT, INSTANCE and the few that are inherited",
    )
    cwd: str = Field(".", description="working folder, relative to the folder of the experiment file")
    replicas: Whole = Field(1, ge=1, le=MAX_REPLICAS, description="instances, each with a port of its own")
    scaling: Scaling | None = Field(
        None,
        description="instances come and go behind an ingress, as an autoscaler decides; instead of `replicas`",
    )
    port: Whole | None = Field(
        None, ge=1, le=LAST_PORT, description="port of the first instance, the next have the next ports; with "
        "`scaling` that of the ingress; null takes free ones",
    )  # fmt: skip
    ready: Ready = Field(Ready(), description="when an instance counts as ready")
    limits: Limits = Field(Limits(), description="upper bounds of each instance")
    cpus: tuple[Annotated[Whole, Field(ge=0)], ...] | None = Field(
        None, min_length=1, description="CPU numbers that the instances may run on"
    )
    nice: Whole = Field(0, ge=-20, le=19, description="scheduling priority; −20 is the highest")
    stop: Stop = Field(Stop(), description="how an instance is asked to end")
    log_limit: Size = Field(
        DEFAULT_LOG_LIMIT_BYTES, description="bytes of output kept of each instance; all are counted"
    )

    @field_validator("env")
    @classmethod
    def _known_variables(cls, env: dict[str, str]) -> dict[str, str]:
        for name, value in env.items():
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"{name!r} is not a name that an environment variable can have")
            if name in _RESERVED_VARIABLES:
                raise ValueError(f"{name} is set by Towtank itself; choose another name")
            placeholders.validate(value)
        return env

    @field_validator("cwd")
    @classmethod
    def _known_placeholders(cls, cwd: str) -> str:
        return placeholders.validate(cwd)

    @field_validator("cpus")
    @classmethod
    def _each_cpu_once(cls, cpus: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if cpus is not None and len(set(cpus)) != len(cpus):
            raise ValueError(f"{list(cpus)} names a CPU twice")
        return cpus

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        self.check_addresses(["https://127.0.0.1" if self.tls is not None else "http://127.0.0.1"])
        return self

    @model_validator(mode="after")
    def _scalable(self) -> Self:
        if self.scaling is None:
            return self
        if "replicas" in self.model_fields_set and self.replicas != 1:
            raise ValueError("`replicas` stands beside `scaling`, which says how many instances there are")
        if self.tls is not None or self.protocol != PLAIN.protocol:
            raise ValueError(
                "the ingress of `scaling` speaks HTTP/1.1 without TLS; leave `tls` and `protocol` out"
            )
        hpa = self.scaling.hpa
        if hpa is not None and hpa.cpu is not None and (hpa.cpu_request or self.limits.cpu) is None:
            raise ValueError(
                "`scaling.hpa.cpu` is a share of what an instance requests: give `limits.cpu`, or "
                "`scaling.hpa.cpu_request`"
            )
        return self

    @model_validator(mode="after")
    def _ports_exist(self) -> Self:
        if self.port is not None and self.port + self.replicas - 1 > LAST_PORT:
            raise ValueError(
                f"port {self.port} and {self.replicas} replicas need ports up to "
                f"{self.port + self.replicas - 1}; the last port is {LAST_PORT}"
            )
        return self


class Component(ProcessSettings):
    """One kind of process of a deployment; each component is a target of that name."""

    command: Command = Field(
        description="program and arguments; `python` as the first word is the interpreter that runs towtank",
        examples=["python -m catalogue --port {port}"],
    )

    @field_validator("command")
    @classmethod
    def _known_words(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        for word in command:
            placeholders.validate(word)
        return command

    def templates(self) -> Iterator[str]:
        """Every text in which placeholders are filled."""
        yield from self.command
        yield from self.env.values()
        yield self.cwd
        yield from super().templates()

    def missing(self, root: Path | None) -> Iterator[Missing]:
        """What its command needs and is not there, as far as that can be known before it is started."""
        yield from missing(self.command, self.cwd, self.env, root)

    def ports(self) -> range:
        """Fixed ports; empty when free ones are taken."""
        return range(0) if self.port is None else range(self.port, self.port + self.replicas)


class LocalConfig(ProcessSettings):
    """Processes on this machine, run under the guard, which ends all of them whatever happens.

    The short form has one `command`; it is the component `app`. The long form has `components`.
    """

    platform: Literal["local"] = Field(description="processes on this machine")
    command: Command | None = Field(None, description=Component.model_fields["command"].description)
    components: dict[Slug, Component] = Field(
        default_factory=dict, description="several kinds of processes; each is a target of that name"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.command is None and not self.components:
            raise ValueError("nothing to run: give a `command`, or `components`")
        if not self.components:
            self.resolved()
            return self
        stray = sorted(self.model_fields_set - {"platform", "components"})
        if stray:
            raise ValueError(
                f"{', '.join(f'`{key}`' for key in stray)} stands beside `components`; "
                "it belongs into each component, or the deployment has a single `command`"
            )
        self._check_components()
        return self

    def _check_components(self) -> None:
        taken: dict[int, str] = {}
        for name, component in self.components.items():
            for kind in ("url", "urls"):
                for other in placeholders.dotted(component.templates(), kind):
                    if other not in self.components:
                        raise ValueError(
                            f"component {name!r} uses {{{kind}.{other}}}; "
                            f"components are {', '.join(self.components)}"
                        )
            for port in component.ports():
                if port in taken:
                    raise ValueError(f"components {taken[port]!r} and {name!r} both take port {port}")
                taken[port] = name

    def resolved(self) -> dict[str, Component]:
        """Components of either form, by name, in the order of the file."""
        if self.components:
            return dict(self.components)
        fields = {key: getattr(self, key) for key in ProcessSettings.model_fields}
        component = Component(command=self.command, **fields)
        for kind in ("url", "urls"):
            for other in placeholders.dotted(component.templates(), kind):
                if other != DEFAULT_COMPONENT:
                    raise ValueError(f"{{{kind}.{other}}}: the only component is {DEFAULT_COMPONENT!r}")
        return {DEFAULT_COMPONENT: component}

    def target_names(self) -> tuple[str, ...]:
        """Targets that journeys can name."""
        return tuple(self.components) or (DEFAULT_COMPONENT,)

    def called_by(self, source: str) -> tuple[str, ...]:
        """Components that a component calls: those whose address it is given."""
        templates = tuple(self.resolved()[source].templates())
        return tuple(
            dict.fromkeys(n for kind in ("url", "urls") for n in placeholders.dotted(templates, kind))
        )

    def instance_names(self, target: str) -> tuple[str, ...]:
        """Instances of a component, as they will be called; of one that is scaled nobody knows before."""
        component = self.resolved()[target]
        if component.scaling is not None:
            return ()
        return tuple(f"{target}-{index}" for index in range(component.replicas))

    def never_empty(self, root: Path) -> str:
        """See `base.KnowsItIsNeverEmpty`."""
        del root
        scaled = {name: one.scaling for name, one in self.resolved().items() if one.scaling is not None}
        if not scaled:
            return "nothing of it has `scaling`"
        kept = {name: words for name, scaling in scaled.items() if (words := scaling.never_empty())}
        return "; ".join(f"{name}: {words}" if self.components else words for name, words in kept.items())

    def fixture_names(self) -> tuple[str, ...]:
        """Fixtures whose folder is used; each must exist in the experiment."""
        return self._dotted("fixture")

    def secret_names(self) -> tuple[str, ...]:
        """Environment variables whose values are used, and masked in everything written."""
        return self._dotted("env")

    def secret_files(self) -> tuple[str, ...]:
        """Files whose texts are used, and masked in everything written."""
        return self._dotted("file")

    def transport_of(self, target: str) -> Transport:
        """How requests reach a component."""
        return self.resolved()[target].transport()

    def tls_sections(self) -> Iterator[tuple[tuple[str, ...], Tls]]:
        """Every `tls` that is written, with its key path in the deployment."""
        for name, component in self.resolved().items():
            if component.tls is not None:
                yield ("components", name, "tls") if self.components else ("tls",), component.tls

    def missing_programs(self, root: Path) -> Iterator[Missing]:
        """What the commands need and is not there, with the key path in the deployment."""
        for name, component in self.resolved().items():
            for one in component.missing(root):
                yield one.below("components", name) if self.components else one

    def _dotted(self, kind: str) -> tuple[str, ...]:
        texts = (text for component in self.resolved().values() for text in component.templates())
        return placeholders.dotted(texts, kind)
