"""Where and with what an experiment runs; results from two different environments are never mixed."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import towtank
from towtank.campaign.application import Fingerprints
from towtank.clock import boot_id, machine_id
from towtank.design.foreign import ForeignWorkload
from towtank.design.plan import Plan
from towtank.drivers import registry
from towtank.load.binary import EngineBuild

SCHEMA_VERSION = 1
_MEMORY_STEP = 64 * 2**20
"""MemTotal differs by a few pages from boot to boot; coarser it names the machine."""
MOST_FILES_SHOWN = 10
_NOT_COMPARED = ("application_files", "boot_id", "digest", "captured_utc", "schema_version")


def capture(
    engine: EngineBuild,
    applications: Fingerprints | None = None,
    tools: Mapping[str, str] | None = None,
    *,
    places: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Describe this machine and these versions.

    Parameters
    ----------
    engine : EngineBuild
    applications : Fingerprints, optional
        What the deployments run.
    tools : mapping, optional
        Other load generators that drive workloads → their versions.
    places : mapping, optional
        Where deployments go to that are not on this machine → which place that is.

    Returns
    -------
    dict
        For environment.json. `digest` covers everything but the boot id.
    """
    found: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "host": host(),
        "versions": {
            "towtank": towtank.__version__,
            "engine": engine.version,
            "python": platform.python_version(),
            **(tools or {}),
        },
        "engine": {"version": engine.version, "profile": engine.profile, "build": engine.line},
        "applications": dict(applications.applications if applications else {}),
        "application_files": dict(applications.files if applications else {}),
        "boot_id": boot_id(),
        **({"places": dict(places)} if places else {}),
    }
    found["digest"] = digest(found)
    return found


def tool_versions(plan: Plan) -> dict[str, str]:
    """Versions of the tools that drive workloads of a plan: results of two versions are never mixed.

    Raises
    ------
    DriverError
        One is not there.
    """
    found: dict[str, str] = {}
    for treatment in plan.treatments:
        workload = treatment.spec.workload
        if not isinstance(workload, ForeignWorkload):
            continue
        version = registry.create(workload.driver).version(workload.config)
        if found.setdefault(workload.driver, version) != version:  # another `program`
            found[f"{workload.driver} of {treatment.id}"] = version
    return found


def host() -> dict[str, Any]:
    """What tells this machine from others, and what of it decides how fast it is."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "hostname": socket.gethostname(),
        "machine_id": machine_id(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "system": platform.system(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": round(memory / _MEMORY_STEP) * _MEMORY_STEP,
        "governor": governor(),
        "virtualisation": virtualisation(),
        "cgroup": cgroup_mode(),
    }


def digest(environment: Mapping[str, Any]) -> str:
    """SHA-256 over everything that makes results incomparable."""
    compared = {key: value for key, value in environment.items() if key not in _NOT_COMPARED}
    text = json.dumps(compared, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed, one line each: ``host.kernel: 6.1.0 → 6.8.0``.

    A changed application is followed by its files that changed, as far as both environments name them.
    """
    lines = _lines(dict(_flat(old)), dict(_flat(new)))
    names, now = old.get("application_files"), new.get("application_files")
    if old.get("applications") != new.get("applications") and names and now:
        files = _lines(names, now)
        lines += [f"application file: {line}" for line in files[:MOST_FILES_SHOWN]]
        if len(files) > MOST_FILES_SHOWN:
            lines.append(f"application file: {len(files) - MOST_FILES_SHOWN} more")
    return lines


def _lines(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [
        f"{key}: {before.get(key, 'absent')} → {after.get(key, 'absent')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key, "absent") != after.get(key, "absent")
    ]


def governor() -> str:
    """How the kernel chooses CPU frequencies; "none" where it has no say (most virtual machines)."""
    return _text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")) or "none"


def virtualisation() -> str:
    """Name of the product that this machine runs on, if it is virtual; "none" for bare metal."""
    if "hypervisor" not in _text(Path("/proc/cpuinfo")):
        return "none"
    kind = _text(Path("/sys/hypervisor/type")) or _text(Path("/sys/class/dmi/id/product_name"))
    return kind or "virtual machine"


def cgroup_mode() -> str:
    """Which control groups limits would use: "v2", "v1", "hybrid" (v1 with an idle v2 tree) or "none"."""
    base = Path("/sys/fs/cgroup")
    if (base / "cgroup.controllers").exists():
        return "v2"
    if (base / "unified" / "cgroup.controllers").exists():
        return "hybrid"
    return "v1" if (base / "cpu").exists() else "none"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if not prefix and key in _NOT_COMPARED:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


def _cpu_model() -> str:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
