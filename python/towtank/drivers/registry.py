"""Which drivers there are: one explicit table, and entry points for those of others.

Another distribution adds a driver with an entry point of the group `towtank.drivers`: its name is the
driver's, its value a `DriverKind`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from towtank.drivers.k6_config import K6Config
from towtank.drivers.locust_config import LocustConfig
from towtank.errors import DriverError
from towtank.plugins import PluginKind, Registry

if TYPE_CHECKING:
    from towtank.drivers.base import Driver, ScriptConfig

ENTRY_POINT_GROUP = "towtank.drivers"


class DriverKind(PluginKind):
    """A driver; its config model is a `ScriptConfig`, its implementation a `Driver`."""


DRIVERS: dict[str, DriverKind] = {
    "k6": DriverKind(K6Config, "towtank.drivers.k6:K6Driver", "a script of k6"),
    "locust": DriverKind(LocustConfig, "towtank.drivers.locust:LocustDriver", "a locustfile"),
}

_registry: Registry[DriverKind, Driver] = Registry(
    "driver", table=DRIVERS, kind=DriverKind, group=ENTRY_POINT_GROUP, error=DriverError
)
names = _registry.names
kind = _registry.kind
create = _registry.create


def config_model(name: str) -> type[ScriptConfig]:
    """Config model of a driver, for validating its part of an experiment file."""
    return kind(name).config  # type: ignore[return-value]  # what DriverKind promises
