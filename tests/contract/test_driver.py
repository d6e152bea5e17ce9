"""Every driver does what `drivers.base` says; what holds for one holds for all."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from towtank.drivers import DriveContext, registry
from towtank.drivers.base import ScriptConfig, address_variables
from towtank.errors import DriverError
from towtank.load.importers import FORMATS
from towtank.platforms.base import Instance, Target

TARGETS = {
    "shop-app": Target(
        "shop-app", (Instance("a", "http://127.0.0.1:1"), Instance("b", "http://127.0.0.1:2"))
    ),
    "wiki": Target("wiki", (Instance("w", "http://127.0.0.1:3"),), {"x-key": "s3cret"}),
}


@pytest.fixture(params=registry.names())
def name(request):
    return request.param


@pytest.fixture
def program(tmp_path):
    """A program that says its version, and nothing else."""
    path = tmp_path / "bin" / "tool"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho tool 1.2.3 from somewhere\n")
    path.chmod(0o755)
    return path


def config(name, **keys):
    return registry.config_model(name).model_validate(
        {"driver": name, "script": "load.x", "duration": "10s", "warmup": "1s", **keys}
    )


def context(tmp_path):
    return DriveContext(root=tmp_path, output=tmp_path / "out", targets=TARGETS)


def test_its_config_is_that_of_a_script_and_strict(name):
    assert issubclass(registry.config_model(name), ScriptConfig)
    made = config(name)
    assert (made.duration, made.warmup, made.timeout) == (10.0, 1.0, 60.0)
    for wrong in ({"duration": "0s"}, {"duration": 10}, {"users": 0}, {"unknown": 1}, {"script": ""}):
        with pytest.raises(ValidationError):
            config(name, **wrong)


def test_a_stored_config_can_be_read_again(name):
    made = config(name, users=3, args=["--tag", "a=b"], env={"A": "1"})
    stored = made.model_dump(mode="json", by_alias=True)
    assert registry.config_model(name).model_validate(stored) == made


def test_a_missing_program_is_said_with_the_way_to_get_it(name, tmp_path):
    driver = registry.create(name)
    assert driver.name == name
    lost = config(name, program="no-such-program-anywhere")
    (problem,) = driver.check(lost, tmp_path)
    assert "'no-such-program-anywhere' is not there" in problem
    assert "install" in problem
    with pytest.raises(DriverError, match="is not there"):
        driver.launch(lost, context(tmp_path))


def test_what_it_starts(name, tmp_path, program):
    driver = registry.create(name)
    made = config(
        name, program=str(program), users=7, args=["--tag", "a=b"], env={"SHOP": "x", "TOWTANK_URL": "mine"}
    )
    assert driver.check(made, tmp_path) == []
    assert driver.version(made).startswith("tool 1.2.3")
    launch = driver.launch(made, context(tmp_path))
    assert Path(launch.argv[0]) == program
    assert "7" in launch.argv
    assert " ".join(launch.argv).count("--tag a=b") == 1
    assert any(str(tmp_path / "load.x") in word for word in launch.argv)
    assert launch.requests.parent == tmp_path / "out", "nothing is written outside of the run"
    assert launch.tool in FORMATS, "an importer reads what it writes"
    assert launch.env["SHOP"] == "x"
    assert launch.env["TOWTANK_URL"] == "mine", "what the file says goes before what Towtank says"
    assert launch.env["TOWTANK_URL_WIKI"] == "http://127.0.0.1:3"
    assert not any("s3cret" in word for word in launch.argv), "what is kept of the run has no secrets in it"
    assert 0 in launch.success
    assert launch.cores is None or launch.cores >= 1
    assert not (tmp_path / "out").exists(), "nothing was started"


def test_users_are_the_scripts_unless_they_are_said(name, tmp_path, program):
    words = registry.create(name).launch(config(name, program=str(program)), context(tmp_path)).argv
    assert not {"--vus", "--users", "-u"} & set(words)


def test_addresses_of_targets():
    assert address_variables(TARGETS) == {
        "TOWTANK_URL": "http://127.0.0.1:1",
        "TOWTANK_URL_SHOP_APP": "http://127.0.0.1:1",
        "TOWTANK_URLS_SHOP_APP": "http://127.0.0.1:1,http://127.0.0.1:2",
        "TOWTANK_URL_WIKI": "http://127.0.0.1:3",
        "TOWTANK_URLS_WIKI": "http://127.0.0.1:3",
        "TOWTANK_HEADERS_WIKI": '{"x-key": "s3cret"}',
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("k6", ["--out=csv=mine"]),
        ("k6", ["--paused"]),
        ("locust", ["--processes", "2"]),
        ("locust", ["--run-time=3s"]),
    ],
)
def test_arguments_that_would_break_the_recording_are_refused(name, words):
    with pytest.raises(ValidationError, match=r"recorded|Towtank's to say"):
        config(name, args=words)


def test_an_unknown_driver_names_the_known_ones():
    with pytest.raises(DriverError, match="known are k6, locust"):
        registry.create("jmeter")


def test_programs_beside_python_are_found(tmp_path, program, monkeypatch):
    from towtank.drivers.programs import look_for

    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert look_for("tool") is None
    assert look_for("tool", program.parent) == program
    assert os.access(program, os.X_OK)
