"""An image that was pushed anew under its old name: never mixed with what ran before."""

from __future__ import annotations

import json

import pytest

from support.campaign_bench import make_plan
from towtank.errors import ChangedError

NAME, OLD, NEW = "registry/shop:1", "registry/shop@sha256:aaa", "registry/shop@sha256:bbb"


def before_run(bench, run_id, change):
    """Do something when that run begins."""
    told = bench.told.run

    def run(outline):
        if outline.run_id == run_id:
            change()
        told(outline)

    bench.told.run = run


def test_what_ran_is_kept_with_each_run(bench):
    bench.platform.images = {NAME: [OLD]}
    bench.run(make_plan(blocks=1))
    records = [json.loads(path.read_text()) for path in bench.folder.glob("runs/*/run.json")]
    assert [one["deployment"]["images"] for one in records] == [{NAME: [OLD]}] * 2


def test_an_image_that_changed_is_refused_until_it_is_the_old_one_again(bench):
    bench.platform.images = {NAME: [OLD]}
    before_run(bench, "b02-one-a1", lambda: bench.platform.images.update({NAME: [NEW]}))
    with pytest.raises(
        ChangedError, match=r"of deployment 'one' is not the one that earlier runs had"
    ) as caught:
        bench.run(make_plan())
    assert OLD in caught.value.message
    assert NEW in caught.value.message
    with pytest.raises(ChangedError, match="earlier runs had"):  # a new command knows it from the results
        bench.run(make_plan())
    assert bench.left_behind() == []
    assert set(bench.verdicts().values()) == {"valid/intact", "running"}
    bench.platform.images = {NAME: [OLD]}
    outcome = bench.run(make_plan())
    assert (outcome.kept, outcome.done, outcome.spoiled) == (2, 2, ())


def test_another_name_is_another_image(bench):
    bench.platform.images = {NAME: [OLD]}
    before_run(bench, "b01-two-a1", lambda: setattr(bench.platform, "images", {"registry/shop:2": [NEW]}))
    assert bench.run(make_plan(blocks=1)).spoiled == ()


def test_pods_that_differ_under_one_name_are_refused(bench):
    bench.platform.images = {NAME: [OLD, NEW]}
    with pytest.raises(ChangedError, match="run different images under the name registry/shop:1"):
        bench.run(make_plan(blocks=1))


def test_pods_that_come_under_load_are_compared_too(bench):
    bench.platform.images = {NAME: [OLD]}
    phase = bench.told.phase

    def while_loaded(name):
        if name == "load":
            bench.platform.images = {NAME: [OLD, NEW]}
        phase(name)

    bench.told.phase = while_loaded
    with pytest.raises(ChangedError, match="run different images"):
        bench.run(make_plan(blocks=1))
