"""docs/kubernetes.md: deploying to Kubernetes; the rights in it are those that the code asks for."""

from __future__ import annotations

from pathlib import Path

from towtank.platforms.kubernetes import creating, lease, rights

PAGE = "kubernetes.md"
TEXT = Path(__file__).resolve().parents[1] / "tools" / "kubernetes_page.md"


def render() -> str:
    """Write the page."""
    values = {
        "RIGHTS": rights.manifest(),
        "RIGHTS_IN": rights.manifest("study"),
        "TABLE": _table(),
        "LEASE_S": str(lease.DURATION_S),
        "GONE_S": f"{creating.GONE_TIMEOUT_S:g}",
    }
    text = TEXT.read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _table() -> str:
    """Rights by what they are for."""
    rows: dict[tuple[str, str, bool, str], list[str]] = {}
    for right in rights.needed("study"):
        thing = f"{right.resource}.{right.group}" if right.group else right.resource
        where = "namespace" if right.namespace else "cluster"
        rows.setdefault((thing, right.why, right.optional, where), []).append(right.verb)
    lines = ["| objects | verbs | where | what for |", "|---|---|---|---|"]
    for (thing, why, optional, where), verbs in rows.items():
        if why != "the deployment has such objects":
            lines.append(
                f"| `{thing}` | {', '.join(verbs)} | {where} | {why}{' (optional)' if optional else ''} |"
            )
    return "\n".join(lines)
