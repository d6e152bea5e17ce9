"""A whole study on a fake Cloud Run: load by the service's address, metrics, and a token that is written nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import servers
from support.cli import towtank
from support.fake_cloud_run import PROJECT, REGION, Script, fake_cloud_run, write_credentials
from support.on_cloud_run import IMAGE

EXPERIMENT = f"""
experiment: on-cloud-run
question: How fast is it?
repetitions: 1
deployments:
  hello:
    platform: cloud_run
    project: {PROJECT}
    region: {REGION}
    endpoint: URL
    services: {{hello: {{image: {IMAGE}, public: true}}}}
workloads:
  calls:
    timeout: 5s
    load: {{model: open, rate: 20/s, duration: 1s}}
    journey: {{steps: [{{name: call, path: /, expect: {{status: [200]}}}}]}}
reset: none
settle: {{timeout: 30s}}
observe: [{{cloud-monitoring: {{endpoint: URL, settle: 0s}}}}]
generator: {{nice: 0}}
"""


class Hello(servers.Quiet):
    """What runs in the service."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")


@pytest.mark.slow
def test_load_reaches_the_service_and_the_token_is_written_nowhere(tmp_path: Path) -> None:
    with servers.serving() as start:
        app = start(servers.on_loopback(Hello))
        script = Script(app=f"http://127.0.0.1:{app.server_address[1]}")
        url, _ = fake_cloud_run(start, script)
        credentials = write_credentials(tmp_path / "credentials.json", url)
        path = tmp_path / "study" / "experiment.yaml"
        path.parent.mkdir()
        path.write_text(EXPERIMENT.replace("URL", url))
        done = towtank(
            "run", path, "--set", "max_invalid_repeats=0", GOOGLE_APPLICATION_CREDENTIALS=str(credentials)
        )
    # 6: this machine was busy, which is no matter here
    assert done.returncode in (0, 6), done.stdout + done.stderr
    assert script.services == {}, "nothing is left"
    folder = path.parent / "results"
    assert not [
        one for one in folder.rglob("*") if one.is_file() and script.token.encode() in one.read_bytes()
    ]
    (record,) = (json.loads(one.read_text()) for one in folder.glob("*/runs/*/run.json"))
    assert record["deployment"]["services"]["hello"]["images"] == [IMAGE]
    assert record["telemetry"]["sources"][0]["source"] == "cloud-monitoring"
    assert ("POST", f"/v2/projects/{PROJECT}/locations/{REGION}/services") in {
        (method, asked.partition("?")[0]) for method, asked in script.asked
    }
    assert any("validateOnly=true" in asked for _, asked in script.asked), "it was tried before"
