"""What an OpenWhisk offers to experiments, and whether the key is taken there: `towtank doctor --openwhisk`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from towtank.campaign.machine_checks import Finding
from towtank.errors import PlatformError
from towtank.platforms.openwhisk.api import DEFAULT_NAMESPACE, Api
from towtank.platforms.openwhisk.checks import bounds
from towtank.platforms.openwhisk.config import OpenWhiskConfig
from towtank.platforms.openwhisk.platform import connect
from towtank.units import format_bytes, format_duration

KEY_VARIABLE = "OPENWHISK_AUTH"


def check_openwhisk(url: str, namespace: str | None = None, variable: str = KEY_VARIABLE) -> list[Finding]:
    """All checks of one host; nothing is created.

    Parameters
    ----------
    url : str
        Address of the API host.
    namespace : str, optional
        The key's own by default.
    variable : str
        Of the environment, with the key in it.
    """
    what = f"OpenWhisk at {url}"
    try:
        config = OpenWhiskConfig.model_validate(
            {
                "platform": "openwhisk",
                "url": url,
                "auth": f"{{env.{variable}}}",
                "namespace": namespace or DEFAULT_NAMESPACE,
                "actions": {"any": {"image": "any"}},
            }
        )
        api = connect(config, Path())
    except ValueError as error:
        return [Finding("openwhisk", "missing", what, str(error), "no address that could be asked")]
    except PlatformError as error:
        return [Finding("openwhisk", "missing", what, error.message, error.hint or "")]
    try:
        found = [
            Finding(
                "openwhisk", "ok", what, f"namespace {api.real_namespace()}", "the key is taken: actions can be created"
            )
        ]  # fmt: skip
        return [*found, *_limits(api)]
    except PlatformError as error:
        return [Finding("openwhisk", "missing", what, error.message, error.hint or "")]
    finally:
        api.close()


def _limits(api: Api) -> Iterator[Finding]:
    found = bounds(api)
    if found.per_minute is None or found.at_a_time is None:
        yield Finding(
            "openwhisk-rate",
            "limited",
            "load",
            "not told",
            "beyond the namespace's limits it is answered 429",
        )
    else:
        per_s = found.per_minute / 60
        yield Finding(
            "openwhisk-rate", "ok" if per_s >= 100 else "limited", "load",
            f"{found.per_minute} activations a minute, {found.at_a_time} at a time",
            f"what is beyond {per_s:.3g} requests/s is answered 429",
        )  # fmt: skip
    most_memory, most_ms = found.memory_bytes[1], found.timeout_ms[1]
    if most_memory is not None and most_ms is not None:
        shown = f"{format_bytes(most_memory)}, {format_duration(most_ms / 1000)}"
        yield Finding("openwhisk-action", "ok", "an action at most", shown, "more is refused")
    if found.kinds:
        yield Finding("openwhisk-kinds", "ok", "runtimes", ", ".join(found.kinds), "what `kind` can be")
