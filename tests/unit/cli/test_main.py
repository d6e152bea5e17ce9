"""The entry point: fast help, errors said once with their codes, no tracebacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.cli import towtank
from towtank import errors
from towtank.cli import main as cli
from towtank.cli.go_flags import spelled_out

PYTHON = Path(__file__).parents[3] / "python"


def test_help_names_every_command():
    done = towtank("--help")
    assert done.returncode == 0
    for name in cli.COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_help(name):
    done = towtank(name, "-h")
    assert done.returncode == 0, done.stderr
    assert f"Usage: towtank {name} [OPTIONS]" in done.stdout
    assert not re.search(r"[{<]\w+|\[\[", done.stdout.replace("{{", "").replace("<experiment>", "")), (
        done.stdout
    )


def test_help_is_fast():
    """Under 200 ms of CPU; wall time would measure the machine's other guests."""
    best = min(cpu_of(["--help"]) for _ in range(5))
    assert best < 0.2


def cpu_of(words):
    env = {**os.environ, "PYTHONPATH": str(PYTHON)}
    code = "from towtank.cli.main import main; main()"
    before = os.times()
    subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=True, env=env, timeout=60)
    after = os.times()
    return (after.children_user + after.children_system) - (before.children_user + before.children_system)


def test_help_imports_no_command_and_nothing_heavy():
    code = (
        "import sys\nfrom towtank.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'pydantic', 'pyarrow', 'duckdb', 'pandas', 'numpy', 'scipy', 'altair', 'psutil'} & set(sys.modules)\n"
        "ours = [m for m in sys.modules if m.startswith('towtank.') and m not in ('towtank.cli', 'towtank.cli.main', "
        "'towtank.cli.go_flags', 'towtank.errors')]\n"
        "sys.exit(str((heavy, ours)) if heavy or ours else 0)"
    )
    env = {**os.environ, "PYTHONPATH": str(PYTHON)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr


def test_a_campaign_loads_nothing_that_only_analysis_and_report_need():
    """While something is measured, memory is the measured thing's; both come after the last run."""
    code = (
        "import sys\nimport towtank.campaign, towtank.telemetry, towtank.platforms.kubernetes.platform\n"
        "sys.exit(' '.join({'scipy', 'statsmodels', 'altair', 'vl_convert', 'towtank.analysis', 'towtank.report'}"
        " & set(sys.modules)))"
    )
    env = {**os.environ, "PYTHONPATH": str(PYTHON)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.stderr.strip() == ""


def test_heys_flags_may_be_written_as_go_reads_them():
    words = [
        "load",
        "--n=2",
        "-c=1",
        "-H",
        "-n=5",
        "-d=",
        "-h2=false",
        "-disable-keepalive=T",
        "h/?n=1",
        "--rate",
        "1/s",
    ]
    assert spelled_out(words) == [
        "load", "-n", "2", "-c", "1", "-H", "-n=5", "-d", "", "-disable-keepalive", "h/?n=1", "--rate", "1/s",
    ]  # fmt: skip
    assert spelled_out(["load", "--", "-n=2"]) == ["load", "--", "-n=2"]
    assert spelled_out(["load", "-n"]) == ["load", "-n"]
    assert spelled_out(["run", "-n=2"]) == ["run", "-n=2"]
    done = towtank("load", "-h2=perhaps", "127.0.0.1:9")
    assert done.returncode == 2
    assert "h2" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the kernel has no /dev/full")  # noqa: PTH110
def test_output_that_finds_no_room_is_no_fault_of_ours():
    env = {**os.environ, "PYTHONPATH": str(PYTHON)}
    code = "from towtank.cli.main import main; main()"
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-c", code, "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=env,
        )
    assert done.returncode == 4
    assert "error: no room for what was to be written" in done.stderr
    assert "fault in Towtank" not in done.stderr


def test_version_names_the_engine_or_says_that_there_is_none():
    done = towtank("--version", TOWTANK_ENGINE="/nowhere")
    assert done.returncode == 0
    assert done.stdout.startswith("towtank 0.")
    assert "/nowhere" in done.stdout


def test_a_misspelled_command_is_a_usage_error():
    done = towtank("rum")
    assert done.returncode == int(errors.ExitCode.USAGE)
    assert "run" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.MachineError("no room", hint="make some"), 4),
        (errors.ResultsError("damaged"), 3),
        (errors.Interrupted("stopped"), 130),
        (errors.EngineError("lost"), 1),
    ],
)
def test_errors_are_said_once_with_their_code(error, code, monkeypatch, capsys):
    monkeypatch.setattr(cli, "build_app", lambda argv: raising(error))
    with pytest.raises(SystemExit) as ended:
        cli.main(["run"])
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert said.count(f"error: {error.message}") == 1
    assert ("hint: make some" in said) is (error.hint is not None)
    assert "Traceback" not in said


def test_an_unexpected_error_leaves_a_report_and_no_traceback(monkeypatch, capsys):
    monkeypatch.setattr(cli, "build_app", lambda argv: raising(ZeroDivisionError("oops")))
    with pytest.raises(SystemExit) as ended:
        cli.main(["run"])
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "unexpected ZeroDivisionError: oops" in said
    assert "Traceback" not in said
    path = Path(said.partition("crash report ")[2].partition(";")[0])
    assert "ZeroDivisionError" in path.read_text()
    path.unlink()


def test_debug_shows_the_traceback(monkeypatch, capsys):
    monkeypatch.setenv("TOWTANK_DEBUG", "1")
    monkeypatch.setattr(cli, "build_app", lambda argv: raising(errors.ResultsError("damaged")))
    with pytest.raises(SystemExit):
        cli.main([])
    assert "Traceback" in capsys.readouterr().err


def raising(error):
    def app(**_):
        raise error

    return app


def test_a_missing_file_is_a_bad_file_with_a_hint():
    done = towtank("run", "/nowhere/experiment.yaml")
    assert done.returncode in (int(errors.ExitCode.BAD_FILE), int(errors.ExitCode.USAGE))
    assert "/nowhere/experiment.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error():
    env = {**os.environ, "PYTHONPATH": str(PYTHON)}
    code = "from towtank.cli.main import main; main()"
    shell = f'"{sys.executable}" -c "{code}" schema | head -n 1; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, check=False, env=env, timeout=60
    )
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr


def test_clean_says_when_there_is_nothing(tmp_path):
    done = towtank("clean", str(tmp_path))
    assert done.returncode == 0
    assert "nothing to clean" in done.stdout


def test_clean_ends_what_is_left_and_says_so(tmp_path):
    from towtank.campaign.intents import Intents

    folder = tmp_path / "results" / "trial"
    (folder / "intents").mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    intent = Intents(folder).declare("engine", "b01-one-a1")
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "TOWTANK_TOKEN": intent.token}) as left:
        time.sleep(0.1)
        done = towtank("clean", str(tmp_path))
        assert left.wait(5) < 0
    assert "engine b01-one-a1: ended 1 process(es)" in done.stdout
    assert "nothing was left behind" in towtank("clean", str(folder)).stdout


def test_doctor_speaks_json():
    done = towtank("doctor", "--json")
    assert done.returncode == 0, done.stderr
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert {"engine", "cores", "steal", "jitter", "nice", "cgroup", "files", "ports", "clock", "disk"} <= set(
        findings
    )
    assert {finding["state"] for finding in findings.values()} <= {"ok", "limited", "missing"}
    assert all(finding["meaning"] for finding in findings.values())


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_doctor_without_an_engine_still_speaks_and_fails(form):
    done = towtank("doctor", *form, TOWTANK_ENGINE="/nowhere")
    assert done.returncode == int(errors.ExitCode.DEPLOYMENT_FAILED)
    assert "missing" in done.stdout
