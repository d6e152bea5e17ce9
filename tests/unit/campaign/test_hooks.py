"""Commands and copies of the experimenter: bounds, clean-up, confinement, verification."""

from __future__ import annotations

import os
import time

import pytest

from towtank.campaign import processes
from towtank.campaign.hooks import Command, HookFailed, run_command, run_reset
from towtank.campaign.intents import Intents
from towtank.campaign.placeholders import Places
from towtank.campaign.stopping import StopRequest
from towtank.design.model import Reset
from towtank.errors import Interrupted, PlatformError


@pytest.fixture
def place(tmp_path):
    """Root, data, a fixture, and the intents of a result folder."""
    for name in ("root", "data", "fixture", "results"):
        (tmp_path / name).mkdir()
    places = Places(
        tmp_path / "root", tmp_path / "data", {"db": tmp_path / "fixture"}, {"app": "http://127.0.0.1:1"}
    )
    return tmp_path, places, Intents(tmp_path / "results")


def run(place, words, *, timeout_s=10.0, cancelled=lambda: None, env=None):
    folder, places, intents = place
    command = Command("reset", words, timeout_s, env or {}, folder / "hook.log")
    return run_command(command, places, intents, cancelled=cancelled)


def reset(place, **fields):
    folder, places, intents = place
    return run_reset(
        Reset.model_validate(fields), places, intents, log=folder / "reset.log", cancelled=lambda: None
    )


def test_a_command_runs_in_the_root_with_placeholders_and_environment(place):
    folder, _, _ = place
    result = run(place, "echo {data} $MARK; pwd", env={"MARK": "{url.app}"})
    assert (folder / "hook.log").read_text() == f"{folder}/data http://127.0.0.1:1\n{folder}/root\n"
    assert result.printed is None


def test_a_list_is_executed_without_a_shell(place):
    folder, _, _ = place
    run(place, ("echo", "{fixture.db}", "$HOME", "a b"))
    assert (folder / "hook.log").read_text() == f"{folder}/fixture $HOME a b\n"


def test_placeholders_are_quoted_in_a_shell(tmp_path):
    places = Places(tmp_path / "a b; rm -rf x")
    places.root.mkdir()
    log = tmp_path / "log"
    run_command(
        Command("prepare", "echo {root}", 5, {}, log), places, Intents(tmp_path / "r"), cancelled=lambda: None
    )
    assert log.read_text() == f"{places.root}\n"


def test_an_unknown_placeholder_lists_the_known_ones(place):
    with pytest.raises(PlatformError, match=r"\{dat\}, which is not known.*\{data\}") as caught:
        run(place, "echo {dat}")
    assert caught.value.hint == "did you mean {data}?"


def test_braces_that_are_no_placeholders_stay(place):
    folder, _, _ = place
    run(place, """echo '{"a": 1}' "${HOME:+x}" {{data}}""")
    assert (folder / "hook.log").read_text() == '{"a": 1} x {data}\n'


def test_failure_shows_code_and_last_words(place):
    with pytest.raises(HookFailed, match=r"exit code 7; it said:\n  boom"):
        run(place, "echo boom >&2; exit 7")


def test_a_program_that_is_not_there_is_said(place):
    with pytest.raises(HookFailed, match="'no-such-program' cannot be executed"):
        run(place, ("no-such-program",))


def test_a_timeout_ends_the_whole_tree(place):
    folder, _, intents = place
    begun = time.monotonic()
    with pytest.raises(HookFailed, match="not done after 300 ms"):
        run(place, f"(setsid sleep 60 & echo $! > {folder}/pid); sleep 60", timeout_s=0.3)
    assert time.monotonic() - begun < 30, "not the minute that it sleeps"
    assert processes.start_ticks(int((folder / "pid").read_text())) is None
    assert intents.pending() == []


def test_a_daemon_that_a_command_leaves_behind_is_ended(place):
    folder, _, _ = place
    run(place, f"setsid sleep 60 & echo $! > {folder}/pid")
    assert processes.start_ticks(int((folder / "pid").read_text())) is None


def test_ctrl_c_ends_a_command(place):
    stop = StopRequest()
    stop.ask()
    with pytest.raises(Interrupted):
        run(place, "sleep 60", cancelled=stop)


def test_too_much_output_ends_a_command(place, monkeypatch):
    monkeypatch.setattr("towtank.campaign.hooks.OUTPUT_LIMIT_BYTES", 10_000)
    with pytest.raises(HookFailed, match="wrote more than"):
        run(place, "yes")


def test_reset_copies_files_and_folders(place):
    folder, _, _ = place
    (folder / "root" / "seed.db").write_text("42")
    (folder / "fixture" / "tree").mkdir()
    (folder / "fixture" / "tree" / "a").write_text("a")
    for _ in range(2):  # the second time over what the first one left
        facts = reset(
            place,
            copy=[
                {"source": "seed.db", "to": "{data}/db"},
                {"source": "{fixture.db}/tree", "to": "{data}/tree"},
            ],
        )
    assert (folder / "data" / "db").read_text() == "42"
    assert (folder / "data" / "tree" / "a").read_text() == "a"
    assert len(facts["copied"]) == 2


@pytest.mark.parametrize("source", ["/etc/passwd", "../../etc/passwd", "link"])
def test_reset_reads_only_where_it_may(place, source):
    folder, _, _ = place
    (folder / "root" / "link").symlink_to("/etc/passwd")
    with pytest.raises(HookFailed, match="outside of the experiment's folder"):
        reset(place, copy=[{"source": source, "to": "{data}/x"}])


@pytest.mark.parametrize("to", ["/tmp/x", "{root}/x", "{data}/../x"])
def test_reset_writes_only_where_it_may(place, to):
    folder, _, _ = place
    (folder / "root" / "seed").write_text("")
    with pytest.raises(HookFailed, match="may be written"):
        reset(place, copy=[{"source": "seed", "to": to}])


def test_a_source_that_is_missing_is_said(place):
    with pytest.raises(HookFailed, match="there is no such file"):
        reset(place, copy=[{"source": "nothing", "to": "{data}/x"}])


def test_verify_compares_the_object_printed_last(place):
    facts = reset(place, run="""echo '{"pages": 1}'; echo working; echo '{"pages": 1000, "more": 2}'; echo bye""",
                  verify={"pages": 1000})  # fmt: skip
    assert facts["verified"] == {"pages": 1000}


@pytest.mark.parametrize(
    ("printed", "words"),
    [('{"pages": 999}', "pages is 999, not 1000"), ("{}", "pages is None"), ("[1]", "printed no JSON object"),
     ('{"pages": true}', "pages is True")],
)  # fmt: skip
def test_another_state_is_refused(place, printed, words):
    with pytest.raises(HookFailed, match=words):
        reset(place, run=f"echo '{printed}'", verify={"pages": 1 if "true" in printed else 1000})


def test_hooks_do_not_keep_the_callers_pipes(place):
    """A command cannot hold towtank's stdin."""
    run(place, "cat; test $? = 0")
    assert os.getpid() > 0
