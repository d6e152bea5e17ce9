"""`towtank load`: an ad-hoc load with hey's flags, driven by the same engine as experiments."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from towtank.errors import EngineError, ExitCode, Interrupted

if TYPE_CHECKING:
    from towtank.campaign import StopRequest
    from towtank.campaign.seen import Seen
    from towtank.load.adhoc import AdhocLoad
    from towtank.load.binary import EngineBuild
    from towtank.load.engine import EngineProcess
    from towtank.load.events import Progress
    from towtank.platforms.transport import Tls
    from towtank.store.layout import RunLayout

MOST_REDIRECTS = 7
"""Followed on the same host. hey follows ten, to wherever they lead."""


def load(
    url: str = typer.Argument(..., metavar="URL", help="Where to; http:// may be left away."),
    *,
    n: int | None = typer.Option(None, "-n", help="Number of requests. Default is 200."),
    c: int | None = typer.Option(
        None,
        "-c",
        help="Workers, each with a connection. Default is 50. With --rate: most requests in flight.",
    ),
    q: float | None = typer.Option(
        None, "-q", help="Rate limit per worker, in requests per second; 0 is none."
    ),
    z: str | None = typer.Option(None, "-z", help="Duration, such as 10s or 3m; then -n is ignored."),
    o: str | None = typer.Option(None, "-o", help="Output: csv instead of a summary."),
    m: str = typer.Option("GET", "-m", help="HTTP method."),
    header: list[str] = typer.Option([], "-H", help='Header "Name: value"; may be repeated.'),
    t: float = typer.Option(20.0, "-t", help="Timeout of each request in seconds; 0 is 1,800, the most."),
    accept: str | None = typer.Option(None, "-A", help="Accept header."),
    d: str | None = typer.Option(None, "-d", help="Request body."),
    data_file: Path | None = typer.Option(None, "-D", help="Request body from a file."),
    content_type: str | None = typer.Option(
        None, "-T", help='Content type of the body. Default is "text/html".'
    ),
    a: str | None = typer.Option(None, "-a", help="Basic authentication, user:password."),
    host: str | None = typer.Option(None, "-host", help="Host header."),
    disable_compression: bool = typer.Option(False, "-disable-compression", help="Do not ask for gzip."),
    disable_keepalive: bool = typer.Option(
        False, "-disable-keepalive", help="A new connection for each request."
    ),
    disable_redirects: bool = typer.Option(
        False, "-disable-redirects", help="A redirect is an answer; else it is followed on the same host."
    ),
    x: str | None = typer.Option(None, "-x", help="HTTP proxy, host:port; socks5://host:port works too."),
    h2: bool = typer.Option(
        False, "-h2", help="HTTP/2: with https if the server wants it, with http by prior knowledge."
    ),
    u: str | None = typer.Option(None, "-U", help="User agent."),
    insecure: bool = typer.Option(False, "--insecure", help="https: accept any certificate, as hey does."),
    cacert: Path | None = typer.Option(None, "--cacert", help="https: PEM file of trusted authorities."),
    cert: Path | None = typer.Option(None, "--cert", help="https: PEM file of one's own certificate."),
    key: Path | None = typer.Option(None, "--key", help="https: PEM file of its private key."),
    unix_socket: Path | None = typer.Option(
        None, "--unix-socket", metavar="PATH", help="Connect to this socket; the URL says what is asked for."
    ),
    cpus: int = typer.Option(1, "-cpus", help="Threads of the engine; one does for most loads."),
    rate: str | None = typer.Option(
        None, "--rate", help="Open load: arrivals per second, such as 1000/s, whatever the answers take."
    ),
    arrivals: str = typer.Option("uniform", "--arrivals", help="With --rate: uniform or poisson."),
    templates: bool = typer.Option(
        False, "--templates", help="Fill in {{ … }} in URL, headers and body, such as {{ random_int(1, 9) }}."
    ),
    keep: Path | None = typer.Option(
        None,
        "--keep",
        metavar="DIR",
        help="Keep the load there: a folder for towtank report and towtank sql.",
    ),
    seed: int = typer.Option(0, "--seed", help="Seed of everything random."),
) -> None:
    """Drive a load at a URL and print what became of it.

    Takes hey's flags. Every request is kept and counted: failures are in the percentiles, where they belong. The exit
    code is 0 when the load was carried out, whatever the target answered, even nothing.
    """
    from towtank.load.adhoc import AdhocLoad
    from towtank.load.adhoc_headers import headers_from
    from towtank.units import parse_duration, parse_rate

    if o not in (None, "", "csv"):
        raise typer.BadParameter(f"{o!r} is not known; csv is the only one", param_hint="-o")
    if arrivals not in ("uniform", "poisson"):
        raise typer.BadParameter(f"{arrivals!r} is not known; uniform or poisson", param_hint="--arrivals")
    if arrivals != "uniform" and rate is None:
        raise typer.BadParameter("says nothing without --rate", param_hint="--arrivals")
    try:
        duration_s = parse_duration(z) if z is not None else None
        rate_per_s = parse_rate(rate) if rate is not None else None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    body, body_file = _body(d, data_file, templates=templates)
    tls = _tls(insecure=insecure, cacert=cacert, cert=cert, key=key)
    asked = AdhocLoad(
        url=url, requests=n, users=c, duration_s=duration_s or None, rate_per_user_per_s=q or None,
        rate_per_s=rate_per_s,
        arrivals=_known_arrivals(arrivals), method=m.upper() or "GET", body=body, timeout_s=t, threads=cpus, seed=seed,
        keepalive=not disable_keepalive, templates=templates, body_file=body_file, tls=tls, proxy=x or None, http2=h2,
        redirects=0 if disable_redirects else MOST_REDIRECTS, unix_socket=unix_socket,
        headers=headers_from(
            header, accept=accept, content_type=content_type, basic=a, host=host,
            compression=not disable_compression, has_body=d is not None or data_file is not None, user_agent=u,
        ),
    )  # fmt: skip
    raise typer.Exit(int(_carried_out(asked, keep, as_csv=o == "csv")))


def _carried_out(asked: AdhocLoad, keep: Path | None, *, as_csv: bool) -> ExitCode:
    """Drive the load in the folder that keeps it, or in one that is gone afterwards."""
    from towtank.load.binary import engine_build, find_engine, require_release
    from towtank.store.layout import RunLayout

    asked.job(Path())  # what is wrong with the options, before anything else
    asked.resolve()
    build = engine_build(find_engine())
    require_release(build)
    if keep is not None:
        return _kept(asked, keep, build, as_csv=as_csv)
    with tempfile.TemporaryDirectory(prefix="towtank-load-") as folder:
        try:
            return _drive(asked, build, RunLayout(Path(folder)), as_csv=as_csv)[0]
        except EngineError as error:
            error.hint = "--keep DIR keeps what the engine itself says about it"  # the folder is gone now
            raise


def _kept(asked: AdhocLoad, keep: Path, build: EngineBuild, *, as_csv: bool) -> ExitCode:
    """Drive the load and keep it as a result folder."""
    from towtank.campaign.kept_load import KeptLoad
    from towtank.load.adhoc_url import AdhocError

    kept = KeptLoad.begin(keep.absolute(), asked, build)
    try:
        code, seen = _drive(asked, build, kept.layout, as_csv=as_csv)
    except AdhocError:  # the engine refused the job
        kept.abandon()
        raise
    kept.complete(seen)
    typer.echo(f'kept in {keep}: towtank report {keep}, or towtank sql {keep} "FROM requests"', err=True)
    return code


def _known_arrivals(name: str) -> Literal["uniform", "poisson"]:
    return "poisson" if name == "poisson" else "uniform"


def _body(text: str | None, file: Path | None, *, templates: bool) -> tuple[str | None, Path | None]:
    """The body as a text, or the file that is sent byte for byte."""
    if file is None:
        return text, None
    if text is not None:
        raise typer.BadParameter("give the body either in -d or in a file", param_hint="-D")
    try:
        if templates:
            return file.read_text(encoding="utf-8"), None
        with file.open("rb"):
            return None, file
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="-D") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file} is not UTF-8 text", param_hint="-D") from error


def _tls(*, insecure: bool, cacert: Path | None, cert: Path | None, key: Path | None) -> Tls:
    from towtank.platforms.transport import Tls

    if (cert is None) != (key is None):
        raise typer.BadParameter(
            "a certificate and its key belong together", param_hint="--cert" if key else "--key"
        )
    if insecure and cacert is not None:
        raise typer.BadParameter("accepts any certificate: leave --cacert away", param_hint="--insecure")
    files = {"ca": cacert, "cert": cert, "key": key}
    for name, file in files.items():
        if file is not None and not os.path.isfile(file):  # noqa: PTH113 - a name that is too long is no error here
            raise typer.BadParameter(
                f"there is no file {file}", param_hint="--cacert" if name == "ca" else f"--{name}"
            )
    return Tls(insecure=insecure, **{name: str(file.absolute()) for name, file in files.items() if file})


def _drive(asked: AdhocLoad, build: EngineBuild, layout: RunLayout, *, as_csv: bool) -> tuple[ExitCode, Seen]:
    """Run the engine in a folder and say what came of it."""
    import json
    import secrets

    from towtank.campaign import StopRequest, machine
    from towtank.campaign.seen import Seen
    from towtank.load.adhoc_options import refusal
    from towtank.load.engine import EngineProcess, JobRefused
    from towtank.load.job import masked

    job = asked.job(layout.request_logs, layout.run_id)
    kept = masked(job)
    layout.logs.mkdir(exist_ok=True)
    layout.job.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    engine = EngineProcess(
        build.path, layout.job, log_path=layout.logs / "engine.log", token=f"tt-{secrets.token_hex(8)}",
        private_job=job if kept != job else None, on_progress=_say_progress,
    )  # fmt: skip
    seen = Seen()
    before = machine.now()
    try:
        with StopRequest() as stop, engine:
            interrupted = _to_the_end(engine, asked, stop, seen)
    except JobRefused as error:
        raise refusal(error.problems) from error
    seen.during = machine.between(before, machine.now())
    seen.findings = engine.findings
    _require_records(engine, layout)
    if as_csv:
        from towtank.load.summary import write_csv

        write_csv(layout.requests, sys.stdout)
    else:
        _print_summary(asked, layout, seen)
    return ExitCode.INTERRUPTED if interrupted else ExitCode.OK, seen


def _to_the_end(engine: EngineProcess, asked: AdhocLoad, stop: StopRequest, seen: Seen) -> bool:
    """Wait for the end of the load; after Ctrl-C, for an orderly early end. Gives whether it was one."""
    from towtank.design.load_shape import duration_s
    from towtank.load.engine import flush_timeout_s

    seen.ready = engine.wait_ready(cancelled=stop)
    engine.start_at(None)
    seen.zero_ns = engine.wait_started(cancelled=stop)
    longest = duration_s(asked.workload().load) + 2 * asked.longest_s + flush_timeout_s(seen.ready.due or 0)
    try:
        seen.done = engine.wait_done(timeout_s=longest, cancelled=stop)
    except Interrupted:
        engine.stop()
    else:
        return False

    def hurried() -> None:
        if stop.hurry:
            raise Interrupted("stopped in a hurry: there is no summary")

    seen.done = engine.wait_done(timeout_s=10.0, cancelled=hurried)
    return True


def _require_records(engine: EngineProcess, layout: RunLayout) -> None:
    """Refuse to print anything but the records of this very load."""
    from towtank.load.events import COMPACT_FAILED

    failed = next((one for one in engine.findings if one.get("name") == COMPACT_FAILED), None)
    if failed is not None:
        raise EngineError(
            f"the records of this load could not be put together: {failed.get('message', '')}",
            hint=str(failed.get("advice", "")),
        )
    if not layout.requests.exists():
        raise EngineError(
            "the engine wrote no records", hint=f"its own words: {engine.stderr_tail() or 'none'}"
        )


def _print_summary(asked: AdhocLoad, layout: RunLayout, seen: Seen) -> None:
    from towtank.load.summary import render, summarise

    elapsed = max(int(seen.done.window.get("last_us") or 0) if seen.done is not None else 0, 1) / 1e6
    _clear_progress()
    spoken = _spoken(asked, seen)
    found = summarise(layout.requests, timeout_s=asked.longest_s, elapsed_s=elapsed, protocol=spoken)
    typer.echo(render(found))
    for line in _instrument(seen):
        typer.echo(line)


def _spoken(asked: AdhocLoad, seen: Seen) -> str:
    """Name the protocol that was asked for, and what the engine found of it."""
    name = "HTTP/2" if asked.transport().protocol == "http2" else "HTTP"
    found = next((one for one in seen.findings if one.get("name") == "protocol_failed"), None)
    return name if found is None else f"{name} ({found.get('message', '')})"


def _instrument(seen: Seen) -> list[str]:
    """What the reader should know about the measurement itself; empty when all is well."""
    from towtank.campaign import evidence, judge

    of_self = evidence.of_self(seen.done) if seen.done is not None else ()
    of_host = evidence.of_host(seen.during) if seen.during is not None else ()
    verdicts = judge([*of_self, *of_host])
    lines = [f"  {reason.message}; {reason.advice}" for reason in verdicts.instrument_reasons]
    lines += [f"  {finding['message']}" for finding in seen.findings if finding.get("message")]
    return [f"Instrument: {verdicts.instrument}", *dict.fromkeys(lines), ""] if lines else []


def _say_progress(progress: Progress) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(
            f"\r{progress.t_us / 1e6:.0f} s: {progress.done} done, {progress.failed} failed, "
            f"{progress.in_flight} in flight\x1b[K"
        )
        sys.stderr.flush()


def _clear_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
