"""docs/experiment-file.md: every key of an experiment file, from the schema that editors use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from towtank.design import json_schema
from towtank.design.operations import FUNCTIONS
from towtank.platforms import placeholders
from towtank.variables import known_names, variable

PAGE = "experiment-file.md"
ROOT = Path(__file__).resolve().parents[1]

HEAD = """# The experiment file

*Made by `make docs` from the models that validate a file. `towtank schema -o experiment.schema.json` writes the
same as a JSON Schema; an editor then completes keys and marks mistakes. `towtank plan FILE` checks everything and
touches nothing.*

```yaml
{example}```

## How it is read

- **YAML 1.2**, UTF-8, one document, no tags. `no`, `yes`, `on` and `off` are text. A key that is written twice is
  an error, and so is one that nobody knows. All problems are reported at once, each with file, line and column.
- **Text may go without quotes**: where text is wanted, `8080` and `1.10` are taken as they are written.
- **Anchors**: `&name` marks a mapping, `<<: *name` takes its keys over; keys beside it win. Good for deployments
  that differ in one thing.
- **Other files**: a `journey` may be the path of a YAML file with its steps; bodies, feeds and certificates are
  files too. They must lie in the experiment's folder; links that lead out of it are refused. What they hold is part
  of the plan, and copies are kept with the results (never of private keys, nor of `secret` feeds).
- **Commands** are run only from `run` (in `prepare`, `reset` and fixtures) and from a deployment's `command`.

### Values with a unit

| kind | written | |
|---|---|---|
| duration | `15m`, `300ms`, `1h30m`, `0` | ns, us, ms, s, m, h, d; a number without a unit is an error |
| size | `64MiB`, `1.5GB`, `1000` | B, kB, MB, GB, TB, KiB, MiB, GiB, TiB |
| share | `99.9%`, `0.999` | 0 to 1 |
| rate | `100/s`, `6/min`, `100` | per second, minute or hour |
| CPU cores | `500m`, `1.5` | |

### `${{{{ … }}}}`: values that depend on factors

Worked out when the plan is made, for each treatment, in deployments, workloads, fixtures, `prepare`, `reset`,
`settle`, `observe`, `faults`, `generator` and `slo`. Names are factors (and `deployment`, `workload`); there are numbers,
`'text'`, `true`, `false`, `+ - * / // %`, comparisons, `and or not`, `a if c else b`, and

{functions}

A value that is one expression keeps its type (`users: "${{{{ n * 2 }}}}"` is a number); inside of text the result
is written into it. Quote it when it stands in `{{ }}` or `[ ]`. `{{{{ … }}}}` without the dollar is the engine's
language, for journeys: it is worked out for each request.

### `{{name}}`: places that exist only when something runs

{placeholders}

## What a design must be able to do

- A **treatment** is one combination of levels. `exclude` leaves out every combination that agrees with one of its
  maps; `include` then adds combinations, also with levels that a factor does not list; what a map does not name
  takes all levels. At most 10,000 treatments and 10,000 runs.
- With one deployment or workload defined no factor is needed. With several, the factor `deployment` or `workload`
  chooses; its level `shop+wiki` drives two workloads at the same time, and `p95[shop]` is then that of one of them.
- **`order: randomized-blocks`**: each block is one run of every treatment, in an order of its own. A deployment
  with `deploy: per-block` makes it split-plot: its runs lie together in the block. With `deploy: once` they lie
  together in the whole experiment. `order: listed` is the order of the file, block after block. Orders follow from
  `seed` by SHA-256 over seed, purpose, block and name, so they are the same everywhere and adding blocks changes
  none of the earlier ones.
- **`answer`** declares what is claimed. Its `baseline` is a treatment, or a level of one factor: then every
  treatment is compared with the one that differs in nothing else. A design that cannot decide its claims is
  refused; for `collapsed` that is one with fewer than 7 repetitions (a single claim at 95 %). `towtank plan` names the
  method of every claim.
- **`reset`** must be written, be it `none`, where a deployment outlives a run or a fixture exists. Its copies are
  read from the experiment's folder, `{{data}}` or a fixture, and written to `{{data}}` or a fixture.
- **Profiles** change sizes and places: `repetitions`, levels of existing factors (with `exclude` and `include` for
  them), existing deployments, workloads and fixtures, `prepare`, `reset`, `settle`, `observe`, `faults`,
  `generator`, `max_invalid_repeats`. Mappings are merged key by key, everything else is replaced, and so is a
  deployment or fixture that names another `platform`. They cannot touch `question`, `answer`, `order`, `seed`, `slo`,
  which deployments and workloads are compared, a journey, or a load model. Plan and report say which treatments of the
  file a profile leaves out.
- Results may stand side by side only when nothing changed that matters. The wording of `question`,
  `max_invalid_repeats` and the name of a profile do not; everything else does, `answer` and `repetitions` too: a
  claim is fixed before its data.

### Response variables

For `answer.primary`, `repetitions.until` and `slo`; bounds in `slo` carry the unit of the variable.

{variables}
"""


_SHORT = {
    "deployments": "mapping: name → [deployment](#deployments)",
    "fixtures": "mapping: name → [fixture](#fixtures)",
    "faults": "list of [faults](#faults)",
    "observe": "list of names, or of [name: options](#telemetry)",
    "primary": "list of [response variables](#response-variables)",
    "until": "mapping: [response variable](#response-variables) → share",
    "slo": "mapping: [response variable](#response-variables) → bound",
}
"""What a reader wants to know, where the schema says it in more words."""


def render() -> str:
    """Write the page."""
    schema = json_schema()
    definitions = schema["$defs"]
    example = (ROOT / "studies" / "quickstart" / "experiment.yaml").read_text("utf-8")
    parts = [
        HEAD.format(
            example=example,
            functions=_table(("function", ""), ((f"`{n}()`", f.explanation) for n, f in FUNCTIONS.items())),
            placeholders=_table(
                ("placeholder", ""), ((f"`{{{n}}}`", text) for n, text in placeholders.INSTANCE_NAMES.items())
            )
            + "\n\nHooks know "
            + ", ".join(f"`{{{n}}}`" for n in placeholders.RUN_NAMES)
            + ". A literal brace is written twice.",
            variables=_variables(),
        ),
        "## Keys of the file\n",
        _keys(schema, definitions),
    ]
    for title, names in _sections(definitions):
        parts.append(f"## {title}\n")
        for name in names:
            parts.append(f"### {_title(name)}\n")
            about = definitions[name].get("description", "").strip()
            parts += [f"{about}\n"] if about else []
            parts.append(_keys(definitions[name], definitions))
    return "\n".join(parts).rstrip() + "\n"


def _sections(definitions: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Definitions in the order in which a reader meets them."""
    left = [n for n, one in definitions.items() if one.get("properties")]
    groups = [
        ("What is claimed", ["Answer", "Adaptive"]),
        ("Deployments", [n for n in left if n.endswith("Deployment")]),
        ("Fixtures", ["PreparedFixture"]),
        ("Workloads", ["WorkloadFile", "OpenLoad", "OpenStage", "Sine", "Trace", "Functions", "ClosedLoad", "ClosedStage", "Connections",
                       "Feed", "Cold", "ColdHeader", "ColdField"]),
        ("Workloads of other tools", [n for n in left if n.endswith("Workload")]),
        ("Journeys", ["Journey", "Request", "Body", "Part", "Expect", "JsonCheck", "HeaderCheck", "Capture",
                      "CloudEvent", "Choose", "Option", "Once", "Group", "Repeat", "Repetition", "If", "Condition",
                      "Pause", "UniformThink", "ExponentialThink", "LognormalThink"]),
        ("Around a run", ["Hook", "Reset", "Copy", "Settle", "SettleUntil", "Generator", "Dns"]),
        ("Faults", [n for n in left if n.endswith("Fault")]),
        ("Telemetry", [n for n in left if n.endswith("Source")]),
        ("Profiles", ["ProfileFile"]),
    ]  # fmt: skip
    told = {name for _, names in groups for name in names} | {n for n in left if n.endswith("Fixture")}
    bare = {n for n in left if n.endswith(("Config", "Options"))}
    groups.insert(2, ("Parts of a platform", [n for n in left if n not in told | bare]))
    for title, names in groups:
        found = [name for name in names if name in definitions]
        if found:
            yield title, found


def _title(name: str) -> str:
    return name.removesuffix("File").removeprefix("Prepared")


def _keys(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = []
    for key, one in schema.get("properties", {}).items():
        default = "**required**" if key in required else _default(one)
        about = one.get("description") or definitions.get(_reference(one), {}).get("description", "")
        rows.append((f"`{key}`", _SHORT.get(key) or _kind(one), default, about.replace("\n", " ")))
    return _table(("key", "value", "default", ""), rows) + "\n"


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, dict):
        given = {key: inner for key, inner in value.items() if inner not in (None, {}, [], "0s")}
        return ", ".join(f"`{k}: {_plain(v)}`" for k, v in given.items() if not isinstance(v, dict))
    return f"`{_plain(value)}`"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(one) for one in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _reference(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _kind(schema: dict[str, Any]) -> str:  # noqa: PLR0911 - one for each form of a schema
    """Name what may stand there, in a few words; that an expression may, is said once above."""
    if "unit" in schema:
        return str(schema["unit"])
    name = _reference(schema)
    if name:
        return "" if name == "Expression" else f"[{_title(name)}](#{_title(name).lower()})"
    if "anyOf" in schema:
        single = {one.get("type") for one in schema["anyOf"] if isinstance(one.get("type"), str)}
        if single == {"boolean", "integer", "number", "string"}:
            return "text, number, true or false"
        if single == {"integer", "number", "string"} and "array" not in single:
            return "text"
        kinds = [_kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"][:8]) + (" …" if len(schema["enum"]) > 8 else "")
    return _plain_kind(schema)


def _plain_kind(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items") or next(iter(schema.get("prefixItems", ())), {})
        return f"list of {_kind(items) or 'values'}"
    if kind == "object":
        values = schema.get("additionalProperties") or next(
            iter(schema.get("patternProperties", {}).values()), {}
        )
        inner = _kind(values) if isinstance(values, dict) else ""
        return f"mapping: name → {inner}" if inner else "mapping"
    if isinstance(kind, list) or kind == "string":
        return "text"
    words = {"integer": "whole number", "number": "number", "boolean": "true or false"}
    return words.get(str(kind), "") + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", ≥ {low}"
    if schema.get("exclusiveMinimum") is not None:
        return f", > {schema['exclusiveMinimum']}"
    return f", ≤ {high}" if high is not None else ""


def _variables() -> str:
    rows = []
    for name in dict.fromkeys(known_names()):
        known = variable(name)
        rows.append(
            (f"`{name}`", known.unit, "lower" if known.lower_is_better else "higher", known.explanation)
        )
    return (
        _table(("name", "unit", "better", ""), rows)
        + "\n\nAny other percentile can be named, such as `p97.5`.\n"
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)
