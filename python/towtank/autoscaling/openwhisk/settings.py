"""Settings of OpenWhisk's scheduling, with the defaults of its own configuration."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from towtank.fields import Duration, Model, Size, Slug, Whole

MIB = 1 << 20
DEFAULT_POOL_BYTES = 1024 * MIB
"""`container-pool.user-memory` (core/invoker/src/main/resources/application.conf)."""
DEFAULT_ACTION_BYTES = 256 * MIB
"""`whisk.memory.std` (common/scala/src/main/resources/application.conf)."""
DEFAULT_IDLE_S = 600.0
"""`container-proxy.timeouts.idle-container`."""
DEFAULT_PER_MINUTE, DEFAULT_CONCURRENT = 60, 30
"""`invocationsPerMinute` and `concurrentInvocations` (ansible/group_vars/all)."""
OVERLOADED_PER_MINUTE = 60.0


class OpenWhiskSettings(Model):
    """A namespace with one action on invokers that are all alike."""

    invokers: Whole = Field(
        1, ge=1, le=100, description="machines that run containers, here sets of processes"
    )
    pool_memory: Size = Field(
        DEFAULT_POOL_BYTES, gt=0, description="memory that an invoker gives to containers (`user-memory`)"
    )
    action_memory: Size = Field(
        DEFAULT_ACTION_BYTES, ge=MIB, description="memory that a container of the action takes of that"
    )
    concurrency: Whole = Field(1, ge=1, le=500, description="requests that a container takes at a time")
    invocations_per_minute: Whole | None = Field(
        DEFAULT_PER_MINUTE, ge=1, description="requests within a minute of the clock; null is no limit"
    )
    concurrent_invocations: Whole | None = Field(
        DEFAULT_CONCURRENT, ge=1, description="requests at a time, waiting ones too; null is no limit"
    )
    idle_timeout: Duration = Field(
        DEFAULT_IDLE_S, gt=0, description="how long a container stays without a request"
    )
    namespace: Slug = Field(
        "guest", description="its name decides, with the action's, where containers start"
    )
    action: Slug | None = Field(None, description="name of the action; null takes the component's")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.action_memory > self.pool_memory:
            raise ValueError(
                f"an action of {self.action_memory // MIB} MiB fits into no invoker's pool of "
                f"{self.pool_memory // MIB} MiB"
            )
        return self
