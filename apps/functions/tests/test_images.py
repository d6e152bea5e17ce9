"""Images of the functions: unpacked into an empty folder that becomes their root, they find nothing of this machine."""

import json
import os
import signal
import subprocess
import tarfile
from io import BytesIO

import pytest
from testbed import functions, images
from testbed.shell import SEARCH_PATH

from support.functions import RUNTIMES, Served, free_port, wait_ready

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="a root of their own needs root"),
]
IN_SECONDS = ("go",)
"""What is built and packed in seconds."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in IN_SECONDS else pytest.mark.slow) for n in functions.RUNTIMES]
)
def test_an_image_serves_alone(name, tmp_path):
    functions.build(name)
    image = images.pack(functions.recipe(name, "1"), tmp_path / "images")
    config, layer = image.blobs()
    assert image.compressed_bytes == len(image.blob(config)) + len(image.blob(layer))
    root = tmp_path / "root"
    with tarfile.open(fileobj=BytesIO(image.blob(layer)), mode="r:gz") as archive:
        archive.extractall(root, filter="fully_trusted")  # /tmp stays open to all
        assert image.unpacked_bytes >= sum(member.size for member in archive.getmembers())
    about = json.loads(image.blob(config))["config"]
    variables = dict(entry.split("=", 1) for entry in about["Env"])
    port = free_port()
    for every_container_has in ("proc", "dev"):  # the mounts end with the process
        (root / every_container_has).mkdir()
    mounts = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev"'
    inside = f'{mounts} && exec chroot --userspec="$2:$2" "$1" "${{@:3}}"'
    apart = ["unshare", "--mount", "--propagation", "private", "bash", "-c", inside, "bash"]
    process = subprocess.Popen(
        [*apart, root, about["User"], *about["Entrypoint"]],
        env={**variables, "PATH": SEARCH_PATH, "PORT": str(port)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    served = Served(RUNTIMES[name], process, port)
    try:
        wait_ready(served)
        answer = served.ask("/?burn=1ms")
        assert answer.status == 200
        assert answer.json["cold"] is True
        assert answer.json["runtime"] == name
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) in served.runtime.exit_codes
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
