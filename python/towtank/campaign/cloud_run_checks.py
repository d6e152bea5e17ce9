"""Whether experiments could run on Cloud Run in a project and region: `towtank doctor --cloud-run`. Creates nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pydantic import ValidationError

from towtank.campaign.machine_checks import Finding
from towtank.errors import PlatformError
from towtank.platforms.cloud_run import services
from towtank.platforms.cloud_run.api import CloudRunApi
from towtank.platforms.cloud_run.config import ENDPOINT, CloudRunConfig
from towtank.platforms.cloud_run.credentials import GoogleAuth
from towtank.platforms.cloud_run.platform import open_api
from towtank.spelling import nearest_name
from towtank.telemetry.cloud_monitoring import monitoring, try_reading
from towtank.telemetry.options import CloudMonitoringOptions

SAMPLE_IMAGE = "us-docker.pkg.dev/cloudrun/container/hello"
"""Google's own sample: it can be pulled by every project."""
_MOST_NAMED = 20


def check_cloud_run(
    project: str, region: str, *, endpoint: str = ENDPOINT, metrics: str | None = None
) -> list[Finding]:
    """All checks; what hangs on one that fails is left out.

    Parameters
    ----------
    project, region : str
    endpoint, metrics : str
        Addresses of the Admin API and of Cloud Monitoring; None is Google's.
    """
    given = {"platform": "cloud_run", "project": project, "region": region, "endpoint": endpoint}
    try:
        config = CloudRunConfig.model_validate({**given, "services": {"any": {"image": SAMPLE_IMAGE}}})
    except ValidationError as error:
        return [
            Finding("cloud-run", "missing", str(one["loc"][0]), repr(one["input"]), one["msg"])
            for one in error.errors()
        ]
    try:
        api = open_api(config)
    except PlatformError as error:
        return [Finding("credentials", "missing", "credentials", error.message, error.hint or "")]
    try:
        return list(_findings(api, config, metrics or CloudMonitoringOptions().endpoint))
    finally:
        api.close()


def _findings(api: CloudRunApi, config: CloudRunConfig, metrics: str) -> Iterator[Finding]:
    yield Finding("credentials", "ok", "credentials", "found and taken", "access tokens are given for them")
    what = f"Cloud Run in {config.project}"
    try:
        regions = api.regions()
    except PlatformError as error:
        yield Finding("project", "missing", what, error.message, error.hint or "")
        return
    yield Finding("project", "ok", what, f"{len(regions)} regions", "the project is there, and the API is on")
    if config.region not in regions:
        near = nearest_name(config.region, regions)
        known = ", ".join(sorted(regions)[:_MOST_NAMED])
        meant = f"did you mean {near!r}?" if near else f"there are {known}"
        yield Finding("region", "missing", "region", f"{config.region!r} is none of the project's", meant)
        return
    yield Finding("region", "ok", "region", config.region, "services can be created in it")
    ((name, service),) = config.services.items()
    yield _tried(
        "rights", "rights to create services", "a trial was accepted", "deployments can be created",
        lambda: api.try_out(services.service_id(name, "doctor"), services.body(service, {})),
    )  # fmt: skip
    yield _tried(
        "metrics", "Cloud Monitoring", "may be read", "`observe: [cloud-monitoring]` works",
        lambda: _read_metrics(api.auth, config.project, metrics),
    )  # fmt: skip


def _read_metrics(auth: GoogleAuth, project: str, endpoint: str) -> None:
    rest = monitoring(auth, endpoint)
    try:
        try_reading(rest, project)
    finally:
        rest.close()


def _tried(name: str, what: str, found: str, means: str, attempt: Callable[[], None]) -> Finding:
    """What came of a question: only metrics can be done without."""
    try:
        attempt()
    except PlatformError as error:
        return Finding(
            name, "limited" if name == "metrics" else "missing", what, error.message, error.hint or ""
        )
    return Finding(name, "ok", what, found, means)
