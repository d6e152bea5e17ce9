"""`towtank doctor`: what this machine can and cannot do, and what that means."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towtank.errors import ExitCode

if TYPE_CHECKING:
    from towtank.campaign.machine_checks import Finding
    from towtank.load.ceiling import Ceiling

_WIDTH_IN_PIPES = 140


def doctor(
    path: Path = typer.Argument(Path(), metavar="DIR", help="Where results would be written."),
    *,
    engine: bool = typer.Option(
        False, "--engine", help="Measure instead what the load engine can drive here; takes half a minute."
    ),
    context: str | None = typer.Option(
        None,
        "--context",
        metavar="NAME",
        help="Check a Kubernetes cluster instead: this context of the kubeconfig.",
    ),
    kubeconfig: str | None = typer.Option(
        None, "--kubeconfig", metavar="FILE", help="File that has the context."
    ),
    namespace: str | None = typer.Option(
        None,
        "--namespace",
        metavar="NAME",
        help="With --context: rights for deployments in this namespace only. With --openwhisk: this one.",
    ),
    openwhisk: str | None = typer.Option(
        None,
        "--openwhisk",
        metavar="URL",
        help="Check an OpenWhisk instead: the address of its API host.",
    ),
    auth: str = typer.Option(
        "OPENWHISK_AUTH", "--auth", metavar="NAME", help="With --openwhisk: variable with the key, USER:KEY."
    ),
    cloud_run: str | None = typer.Option(
        None, "--cloud-run", metavar="PROJECT", help="Check Google Cloud Run instead, in this project."
    ),
    region: str | None = typer.Option(
        None, "--region", metavar="NAME", help="With --cloud-run: the region, such as europe-west1."
    ),
    json: bool = typer.Option(False, "--json", help="As JSON, for scripts."),
) -> None:
    """Say what this machine can and cannot do.

    Measures for half a second how evenly this machine lets a program run. Changes nothing. With --engine it drives
    load on the loopback interface and says how much the engine can drive on time with one thread, and what limits it.
    With --context it asks a cluster what it is, and whether deployments have the rights that they need there. With
    --openwhisk it asks that for its limits, and whether it takes the key. With --cloud-run it asks Google whether the
    credentials of the environment are taken, and what they may do in the project and region.
    """
    if engine:
        _engine_ceiling(as_json=json)
        return
    if sum(place is not None for place in (context, openwhisk, cloud_run)) > 1:
        raise typer.BadParameter(
            "--context, --openwhisk and --cloud-run exclude each other: one place at a time"
        )
    if (cloud_run is None) != (region is None):
        raise typer.BadParameter("--cloud-run and --region go together: a project is asked in one region")
    if context is None and (kubeconfig is not None or (namespace is not None and openwhisk is None)):
        raise typer.BadParameter(
            "--kubeconfig and --namespace go with --context: no cluster is taken by default"
        )
    if openwhisk is not None:
        from towtank.campaign.openwhisk_checks import check_openwhisk

        findings = check_openwhisk(openwhisk, namespace, auth)
    elif cloud_run is not None and region is not None:
        from towtank.campaign.cloud_run_checks import check_cloud_run

        findings = check_cloud_run(cloud_run, region)
    elif context is not None:
        from towtank.campaign.cluster_checks import check_cluster

        findings = check_cluster(context, kubeconfig, namespace)
    else:
        from towtank.campaign.machine_checks import check_machine

        findings = check_machine(path)
    if json:
        typer.echo(json_module.dumps([finding.as_json() for finding in findings], indent=1))
    else:
        _show(findings)
    if any(finding.name == "engine" and finding.state == "missing" for finding in findings):
        raise typer.Exit(int(ExitCode.DEPLOYMENT_FAILED))


def _show(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("", "what", "found", "what it means"):
        table.add_column(title, overflow="fold")
    colours = {"ok": "green", "limited": "yellow", "missing": "red"}
    for finding in findings:
        said = map(
            escape, (finding.what, finding.found, finding.meaning)
        )  # `observe: [kubelet]` is no markup
        table.add_row(f"[{colours[finding.state]}]{finding.state}[/]", *said)
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_IN_PIPES
    console.print(table)


def _engine_ceiling(*, as_json: bool) -> None:
    from towtank.campaign import StopRequest
    from towtank.load.binary import engine_build, find_engine, require_release
    from towtank.load.ceiling import measure_ceiling

    build = engine_build(find_engine())
    require_release(build)
    with StopRequest() as stop:
        ceiling = measure_ceiling(build, cancelled=stop, tell=_say)
    if as_json:
        typer.echo(json_module.dumps(ceiling.as_json(), indent=1))
        return
    for line in ceiling_words(ceiling):
        typer.echo(line)


def _say(words: str) -> None:
    """Progress, for people only: stdout is for the result."""
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def ceiling_words(ceiling: Ceiling) -> list[str]:
    """The ceiling for people: figures first, then what limits it, then what to do."""
    held = (
        f"{ceiling.open_per_s:,} requests/s (lag p99 {ceiling.open_lag_p99_us:,.0f} µs)"
        if ceiling.open_per_s is not None
        else "none"
    )
    rows = [
        ("engine", f"{ceiling.engine}"),
        (
            "I/O backend",
            f"{ceiling.backend}; engine on CPU {ceiling.engine_core}, server on CPU {ceiling.server_core}",
        ),
        ("open load on time, one thread", held),
        ("closed load, one thread", f"{ceiling.closed_per_s:,} requests/s"),
        ("CPU of a request", f"{ceiling.cpu_us_per_request:.2f} µs, its record included"),
        (
            "records after a run",
            f"{ceiling.records_per_s:,} a second, {ceiling.record_cpu_us:.2f} µs CPU each",
        ),
        ("connections to one address", f"{ceiling.max_connections:,}"),
        ("fresh connections, sustained", f"{ceiling.fresh_connections_per_s:,}/s to one address"),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    lines += ["", f"Limited by the {ceiling.limited_by}: {ceiling.why}.", ""]
    lines += [f"Found: {finding}." for finding in ceiling.findings]
    return [*lines, *(f"- {words}" for words in ceiling.advice)]
