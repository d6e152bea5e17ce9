"""The house stays in order: generated pages are current, imports flow downwards, modules say what they are for."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted([*(ROOT / "python" / "towtank").rglob("*.py"), *(ROOT / "testbed").glob("*.py")])

# what a package may use; cli may use everything
ALLOWED = {
    "autoscaling": set(),
    "platforms": {"autoscaling", "load"},
    "telemetry": {"load", "platforms"},
    "faults": {"platforms"},
    "drivers": {"platforms"},
    "cost": set(),
    "design": {"platforms", "telemetry", "drivers", "faults", "cost"},
    "load": {"design", "platforms"},
    "store": {"design", "load", "telemetry"},
    "analysis": {"autoscaling", "design", "store", "cost"},
    "report": {"analysis", "store", "design", "cost"},
    "notebook": {"analysis", "report", "store"},
    "audit": set(),
    "campaign": {"design", "platforms", "telemetry", "drivers", "faults", "load", "store", "analysis"},
}


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current():
    assert load_tool("generate_docs").stale() == [], "run `make docs`"


@pytest.fixture(scope="module")
def package_uses():
    """Every module is read once for all packages."""
    return load_tool("docs_architecture").package_uses()


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_flow_downwards(package, package_uses):
    uses = package_uses[package]
    assert uses <= ALLOWED[package], f"{package} must not use {uses - ALLOWED[package]}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_modules_say_what_they_are_for_and_stay_small(path):
    text = path.read_text("utf-8")
    about = ast.get_docstring(ast.parse(text)) or ""
    assert len(about.splitlines()[0] if about else "") > 15, (
        "the docstring's first line says what the module is for"
    )
    assert text.count("\n") <= 500, "one idea to a module"


def test_unsafe_rust_says_why():
    """The lint forbids `unsafe`; a module that allows it for itself says in its first words what for."""
    manifest = (ROOT / "Cargo.toml").read_text("utf-8")
    assert 'unsafe_code = "deny"' in manifest
    for path in [*(ROOT / "engine").rglob("*.rs"), *(ROOT / "ingress").rglob("*.rs")]:
        text = path.read_text("utf-8")
        if "unsafe_code" in text:
            about = "\n".join(line for line in text.splitlines() if line.startswith("//!"))
            assert "`unsafe`" in about, (
                f"{path.relative_to(ROOT)}: its //! comment says what `unsafe` is there for"
            )


def test_links_in_the_docs_lead_somewhere():
    written = [
        page for page in (ROOT / "apps").rglob("*.md") if not {"build", "node_modules"} & {*page.parts}
    ]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *written]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if "://" not in link
    ]
    broken = [
        f"{page.relative_to(ROOT)}: {link}" for page, link in links if not (page.parent / link).exists()
    ]
    assert broken == []


def test_setup_says_in_one_line_what_is_missing(tmp_path):
    """With an empty PATH but for the shell's own tools there is no Python, no cargo and no compiler."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sed", "awk", "dirname", "sort", "head", "env", "printf"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=False).stdout.strip()
        if found:
            (tools / name).symlink_to(found)
    for what, words in (
        ("venv", "Python 3.11 or newer"), ("engine", "cargo (stable Rust"), ("ingress", "cargo (stable Rust"),
    ):  # fmt: skip
        done = subprocess.run(
            [str(ROOT / "tools" / "setup.sh"), what],
            env={"PATH": str(tools)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
