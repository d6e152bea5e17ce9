"""Where the load comes from: what may be written, and what is said of what may not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from towtank.design.model import Generator


def test_places():
    assert Generator().where == "local"
    assert not Generator().is_shared
    assert Generator(workers=2).is_shared
    elsewhere = Generator.model_validate({"where": ["ssh://a", "ssh://me@b:2222"], "workers": 4})
    assert elsewhere.where == ("ssh://a", "ssh://me@b:2222")
    inside = Generator.model_validate({"where": "cluster", "cluster": {"context": "c", "image": "i:1"}})
    assert inside.is_shared


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"where": "moon"}, "'moon' is no place; allowed are local, cluster, or a list"),
        ({"where": []}, r"\[\] is no place"),
        ({"where": ["http://a"]}, r"'http://a' is no address; allowed is ssh://\[user@\]host\[:port\]"),
        ({"where": ["ssh://"]}, "is no address"),
        ({"where": ["ssh://-oProxyCommand=x"]}, "is no address"),
        ({"where": ["ssh://-l@a"]}, "a user's name does not begin with"),
        ({"where": ["ssh://a:port"]}, "is no address"),
        ({"where": ["ssh://a/x"]}, "is no address"),
        ({"where": ["ssh://a:secret@b"]}, "is no address"),
        ({"where": ["ssh://a", "ssh://b"]}, r"2 machines and 1 worker\(s\): each needs at least one"),
        (
            {"where": "cluster", "cluster": {"context": "c", "image": "Registry/Engine:1"}},
            "'Registry/Engine:1' names no image",
        ),
        ({"where": "cluster", "cluster": {"context": "c", "image": "my engine"}}, "names no image"),
        ({"where": "cluster"}, "`where: cluster` needs to know which"),
        ({"cluster": {"context": "c", "image": "i"}}, "`cluster` belongs to `where: cluster`"),
        (
            {"workers": 2, "threads": 2, "cpus": [0, 1, 2]},
            "3 `cpus` for 2 workers with 2 thread",
        ),
        ({"where": ["ssh://a"], "workers": 2, "cpus": [0]}, "would be pinned to the same `cpus`"),
        ({"engine": "/x"}, "`engine` belongs to machines that are reached by ssh"),
        ({"workers": 64, "threads": 4}, "64 workers with 4 threads each are 256; at most 128"),
    ],
)
def test_what_is_impossible_is_said(given, said):
    with pytest.raises(ValidationError, match=said):
        Generator.model_validate(given)


@pytest.mark.parametrize(
    "name",
    [
        "engine",
        "engine:dev",
        "registry.testbed/towtank-engine:1a2b",
        "localhost:5000/a/b_c:V1.2",
        f"a/b@sha256:{'0' * 64}",
    ],
)
def test_names_of_images(name):
    cluster = {"context": "c", "image": name}
    assert Generator.model_validate({"where": "cluster", "cluster": cluster}).cluster.image == name
