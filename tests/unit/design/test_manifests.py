"""Manifests that deployments name: part of the plan; what is wrong with them has its place in the file."""

from __future__ import annotations

import hashlib

import pytest

from towtank.design import difference, load_plan
from towtank.errors import DesignError

FILE = """\
experiment: manifests
question: How many replicas are enough?
factors: {replicas: [1, 2]}
repetitions: 2
deployments:
  shop:
    platform: kubernetes
    context: staging
    %s
workloads:
  w:
    timeout: 2s
    load: {model: closed, users: 2, duration: 10s}
    journey: {steps: [{name: home}]}
"""
MANIFEST = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\nspec: {replicas: 1}\n"
FORWARDED = "{app: {service: a, through: port_forward}}"
SET = "set: {Deployment/shop:spec.replicas: '${{ replicas }}'}"


def plan(folder, *lines, **files):
    for name, content in files.items():
        place = folder / name.replace("__", "/").replace("_", ".")
        place.parent.mkdir(exist_ok=True)
        place.write_text(content)
    (folder / "experiment.yaml").write_text(FILE % "\n    ".join(lines))
    return load_plan(folder / "experiment.yaml")


def problems(folder, *lines, **files):
    with pytest.raises(DesignError) as caught:
        plan(folder, *lines, **files)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


def test_levels_are_set_and_files_are_part_of_the_plan(tmp_path):
    made = plan(tmp_path, "manifests: [shop.yaml]", SET, shop_yaml=MANIFEST)
    first, second = made.treatments
    assert first.spec.deployment.fields == {"Deployment/shop:spec.replicas": 1}
    assert second.spec.deployment.fields == {"Deployment/shop:spec.replicas": 2}
    assert first.spec.kept_files == {"shop.yaml": hashlib.sha256(MANIFEST.encode()).hexdigest()}
    changed = plan(tmp_path, "manifests: [shop.yaml]", SET, shop_yaml=MANIFEST + "# more\n")
    assert changed.digest != made.digest
    assert any("shop.yaml" in line for line in difference(made, changed))


def test_a_stored_plan_reads_back_the_same(tmp_path):
    made = plan(tmp_path, "manifests: [shop.yaml]", SET, shop_yaml=MANIFEST)
    assert type(made).from_json(made.to_json()).digest == made.digest


def test_everything_in_a_chart_or_kustomize_folder_counts(tmp_path):
    made = plan(
        tmp_path, "kustomize: base", base__a_yaml="a: 1\n", base__kustomization_yaml="resources: [a.yaml]\n"
    )
    assert set(made.treatments[0].spec.files) == {"base/a.yaml", "base/kustomization.yaml"}


def test_a_folder_that_is_no_chart_is_said_at_its_line(tmp_path):
    (found,) = problems(tmp_path, "helm: {chart: shop}", SET, shop__values_yaml="a: 1\n")
    assert (
        "9:19: deployments.shop.helm.chart: the folder 'shop' has no Chart.yaml, so it is no chart" in found
    )
    assert plan(tmp_path, "helm: {chart: shop}", SET, shop__Chart_yaml="name: shop\n").treatments


@pytest.mark.parametrize(
    ("lines", "manifest", "words"),
    [
        (["manifests: [shop.yaml]"], "a: [", "9:17: deployments.shop.manifests[0]: shop.yaml:1:5: not valid YAML"),
        (["manifests: [nowhere.yaml]"], "", "9:17: deployments.shop.manifests[0]: there is no file 'nowhere.yaml'"),
        (["manifests: [../shop.yaml]"], "", "9:17: deployments.shop.manifests[0]: '../shop.yaml' lies outside"),
        (
            ["manifests: [shop.yaml]", "set: {spec.replica: 1}"], MANIFEST,
            "'spec.replica' matches no field of Deployment/shop in shop.yaml; the nearest is 'spec.replicas'",
        ),
        (["manifests: [shop.yaml]", "set: {'a..b': 1}"], MANIFEST, "'a..b' is not the path of a field"),
        (["replicas: 3"], "", "unknown key 'replicas'"),
        ([], "", "needs exactly one of `manifests`, `kustomize` and `helm`; found none of them"),
        (["manifests: [shop.yaml]", f"targets: {FORWARDED}"], MANIFEST, "no way for a measured load"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_place(tmp_path, lines, manifest, words):
    found = problems(tmp_path, *lines, shop_yaml=manifest)
    assert any(words in one for one in found), found


def test_a_file_that_is_not_there_is_said_once_whatever_number_of_treatments_has_it(tmp_path):
    (found,) = problems(tmp_path, "manifests: [nowhere.yaml]", SET)
    assert "9:17: deployments.shop.manifests[0]: there is no file 'nowhere.yaml'" in found
