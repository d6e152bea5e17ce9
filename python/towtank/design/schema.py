"""JSON Schema (draft 2020-12) of experiment files, for editors and for the reference in docs/.

Made from the very models that validate a file, with the models of all platforms, telemetry sources and faults in it. An
editor checks a file as it is written: where a value may be an expression, ``${{ … }}`` is allowed beside it; where text
is wanted, a plain number is (it means what it looks like). What only expansion can tell it cannot check: levels,
designs, targets.
"""

from __future__ import annotations

import copy
from typing import Any

from pydantic.json_schema import models_json_schema

from towtank.cost.spec import CostFile
from towtank.design.experiment_file import DeployFile, ExperimentFile, ObserveFile
from towtank.design.model import OWN_NAME
from towtank.drivers import registry as drivers
from towtank.faults import registry as faults
from towtank.faults.model import NONE, FaultFile
from towtank.fields import Model
from towtank.platforms import registry as platforms
from towtank.telemetry import registry as telemetry
from towtank.variables import known_names

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDENTITY = "urn:towtank:experiment:1"
EXPRESSION: Schema = {"$ref": "#/$defs/Expression"}
_FRAME = frozenset({
    "ExperimentFile", "Answer", "Adaptive", "ProfileFile", "CostFile", "DeploymentFile", "ConversionFile",
})  # fmt: skip
"""Definitions that are the same for every treatment: no expressions in them."""
_TREATED = ("prepare", "reset", "settle", "generator", "slo")
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_ANNOTATIONS = ("title", "description", "default", "examples")
_PERCENTILE = r"^p\d{1,2}(\.\d+)?(_ok)?$|^[a-z0-9_.]+\[[A-Za-z0-9_.-]+\]$"
"""Any percentile, and any variable of one workload: ``p95[shop]``."""


def json_schema() -> Schema:
    """Make the schema.

    Returns
    -------
    dict
        JSON-serialisable; `$defs` has a definition for each model, ``Deployment`` and ``Source`` by kind.
    """
    definitions = _definitions()
    root = definitions.pop("ExperimentFile")
    known: Schema = {"anyOf": [{"enum": list(known_names())}, {"type": "string", "pattern": _PERCENTILE}]}
    variable = {"anyOf": [*known["anyOf"], {"type": "string", "pattern": OWN_NAME}]}
    definitions["Answer"]["properties"]["primary"]["items"] = variable
    definitions["Adaptive"]["properties"]["until"]["propertyNames"] = variable
    for name in ("deployments", "workloads", "fixtures", "profiles"):
        root["properties"][name]["additionalProperties"] = False
    _slugs(root, "deployments", _deployment(definitions))
    _slugs(root, "workloads", _workload(definitions))
    _slugs(root, "fixtures", _fixture(definitions))
    root["properties"]["observe"]["items"] = _source(definitions)
    root["properties"]["faults"]["items"] = _fault(definitions)
    for name in _TREATED:
        _without_null(root["properties"][name])
        root["properties"][name] = _treated(root["properties"][name])
    root["properties"]["slo"]["propertyNames"] = variable
    _short_costs(root, definitions)
    definitions["Expression"] = {
        "description": "an expression over factors, worked out when the plan is made",
        "type": "string",
        "pattern": r"\$\{\{.*\}\}",
    }
    _known_only(root, definitions, known)
    return {"$schema": DIALECT, "$id": IDENTITY, **root, "title": "Towtank experiment", "$defs": definitions}


def _known_only(root: Schema, definitions: dict[str, Schema], known: Schema) -> None:
    """Refuse names of response variables that there are not; where a file declares its own, any name may be one."""
    declares = {"required": ["variables"]}
    definitions["Answer"] |= {"if": {"not": declares}, "then": {"properties": {"primary": {"items": known}}}}
    named = {"propertyNames": known}
    root["if"] = {"not": {"required": ["answer"], "properties": {"answer": declares}}}
    root["then"] = {"properties": {"slo": named, "repetitions": {"properties": {"until": named}}}}


def _short_costs(root: Schema, definitions: dict[str, Schema]) -> None:
    """A price list by its name alone, for all deployments or for one."""
    about = root["properties"]["cost"].get("description", "")
    root["properties"]["cost"] = {
        "description": about, "anyOf": [{"type": "string"}, {"$ref": "#/$defs/CostFile"}],
    }  # fmt: skip
    named = definitions["CostFile"]["properties"]["deployments"]
    for patterns in ("patternProperties", "additionalProperties"):
        if isinstance(named.get(patterns), dict):
            named[patterns] = _or_text(named[patterns])


def _or_text(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [{"type": "string"}, schema]}
    return {pattern: _or_text(below) for pattern, below in schema.items()}


def _definitions() -> dict[str, Schema]:
    """Definitions of all models, those inside of treatments with expressions allowed."""
    models: list[type[Model]] = [ExperimentFile, DeployFile, ObserveFile, CostFile]
    models += [platforms.config_model(name) for name in platforms.names()]
    models += [drivers.config_model(name) for name in drivers.names()]
    models += [telemetry.options_model(name) for name in telemetry.names()]
    models += [FaultFile, *(faults.config_model(name) for name in faults.names())]
    _, whole = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
    tidied: dict[str, Schema] = {name: _tidied(schema) for name, schema in whole["$defs"].items()}
    return {name: schema if name in _FRAME else _treated(schema) for name, schema in tidied.items()}


def _tidied(schema: Any) -> Any:  # noqa: ANN401 - a schema is any JSON
    """Repair bounds that pydantic leaves in its own words; alternatives need only one match."""
    if isinstance(schema, list):
        return [_tidied(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {}
    for key, value in schema.items():
        if key == "default":
            found[key] = value
        elif key == "oneOf":
            found["anyOf"] = _tidied(value)
        elif key != "discriminator":
            name = _BOUNDS.get(key, key) if isinstance(value, int | float) else key
            found[name] = _tidied(value)
    if "unit" in found and isinstance(found.get("default"), int | float):
        found["default"] = _written(found["default"], found["unit"])
    return found


def _written(value: float, unit: str) -> float | str:
    """Write a default as a file would: a bare number of seconds is no duration."""
    if unit == "duration":
        return f"{value:g}s"
    if unit == "share":
        return f"{value * 100:g}%"
    if unit == "size" and value >= 2**20 and value % 2**20 == 0:
        return f"{value // 2**20:g}MiB"
    return value


def _treated(schema: Schema) -> Schema:
    """Allow expressions for values, and numbers for text, in a part that is expanded for each treatment."""
    found = dict(schema)
    for key in ("properties", "patternProperties"):
        if key in found:
            found[key] = {name: _treated(one) for name, one in found[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _treated(found[key])
    if "prefixItems" in found:
        found["prefixItems"] = [_treated(one) for one in found["prefixItems"]]
    if "unit" in found:
        return {**found, "anyOf": [*found["anyOf"], EXPRESSION]}
    if "anyOf" in found:
        return {**found, "anyOf": _alternatives([_treated(one) for one in found["anyOf"]])}
    return _value(found)


def _alternatives(alternatives: list[Schema]) -> list[Schema]:
    """Lift alternatives of alternatives up, each once."""
    flat: list[Schema] = []
    for one in alternatives:
        nested = one["anyOf"] if set(one) <= {"anyOf", "unit"} and "unit" not in one else [one]
        flat += [each for each in nested if each not in flat]
    return flat


def _value(schema: Schema) -> Schema:
    """Allow an expression beside a single value."""
    kind = schema.get("type")
    if "const" in schema or "$ref" in schema or kind in ("object", "array", "null", None):
        return schema
    about = {key: schema[key] for key in _ANNOTATIONS if key in schema}
    bare = {key: value for key, value in schema.items() if key not in about}
    if kind == "string" and "enum" not in schema:
        # Text may be written without quotes, whatever YAML takes it for; the loader reads it as it is written.
        as_written: Schema = {**bare, "type": ["string", "number", "boolean"]}
        return {**about, "anyOf": [as_written, EXPRESSION]} if "pattern" in bare else {**about, **as_written}
    return {**about, "anyOf": [bare, EXPRESSION]}


def _slugs(root: Schema, name: str, each: Schema) -> None:
    patterns = root["properties"][name]["patternProperties"]
    for pattern in patterns:
        patterns[pattern] = each


def _without_null(schema: Schema) -> None:
    if "anyOf" in schema:
        schema["anyOf"] = [one for one in schema["anyOf"] if one != {"type": "null"}]


def _deployment(definitions: dict[str, Schema]) -> Schema:
    """Any deployment: the keys of its platform, and `deploy`."""
    beside = definitions.pop("DeployFile")["properties"]
    return _by_platform(definitions, "Deployment", beside, otherwise=None)


def _fixture(definitions: dict[str, Schema]) -> Schema:
    """Any fixture: prepared by a command, or with the keys of its platform."""
    own = definitions.pop("FixtureFile")
    definitions["PreparedFixture"] = {**own, "required": ["prepare"]}
    return _by_platform(definitions, "Fixture", own["properties"], {"$ref": "#/$defs/PreparedFixture"})


def _by_platform(
    definitions: dict[str, Schema], kind: str, beside: Schema, otherwise: Schema | None
) -> Schema:
    """Choose the definition by the value of `platform`, so that an editor complains about the right keys."""
    names = platforms.names()
    choices = []
    for name in names:
        model = platforms.config_model(name).__name__
        whole = copy.deepcopy(definitions[model])
        whole["properties"] = {**whole["properties"], **beside}
        title = f"{kind} on {name}"
        definitions[f"{name.title().replace('_', '')}{kind}"] = {**whole, "title": title}
        choices.append(
            {
                "if": {"properties": {"platform": {"const": name}}, "required": ["platform"]},
                "then": {"$ref": f"#/$defs/{name.title().replace('_', '')}{kind}"},
            }
        )
    found: Schema = {"type": "object", "allOf": choices}
    found["properties"] = {"platform": {"anyOf": [{"enum": list(names)}, EXPRESSION]}}
    if otherwise is None:
        return {**found, "required": ["platform"]}
    return {**found, "if": {"not": {"required": ["platform"]}}, "then": otherwise}


def _workload(definitions: dict[str, Schema]) -> Schema:
    """Any workload: one of ours, or with the keys of the driver that it names."""
    names = drivers.names()
    choices = []
    for name in names:
        title = f"{name.title().replace('_', '')}Workload"
        definitions[title] = {
            **definitions.pop(drivers.config_model(name).__name__), "title": f"workload that {name} drives"
        }  # fmt: skip
        choices.append(
            {
                "if": {"properties": {"driver": {"const": name}}, "required": ["driver"]},
                "then": {"$ref": f"#/$defs/{title}"},
            }
        )
    return {
        "type": "object",
        "properties": {"driver": {"anyOf": [{"enum": list(names)}, EXPRESSION]}},
        "allOf": choices,
        "if": {"not": {"required": ["driver"]}},
        "then": {"$ref": "#/$defs/WorkloadFile"},
    }


def _fault(definitions: dict[str, Schema]) -> Schema:
    """A fault: what all have, and the keys of its kind."""
    common = definitions.pop("FaultFile")
    names = faults.names()
    choices = []
    for name in names:
        own = definitions.pop(faults.config_model(name).__name__)
        title = f"{name.title().replace('_', '')}Fault"
        definitions[title] = {
            **own,
            "title": f"fault {name}",
            "properties": {**common["properties"], **own.get("properties", {})},
            "required": [*common["required"], *own.get("required", [])],
        }
        choices.append(
            {
                "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{title}"},
            }
        )
    kind = {"anyOf": [{"enum": [*names, NONE]}, EXPRESSION]}
    return {"type": "object", "properties": {"kind": kind}, "required": ["kind", "at"], "allOf": choices}


def _source(definitions: dict[str, Schema]) -> Schema:
    """A telemetry source: its name, or its name with the options that all have and its own."""
    common = definitions.pop("ObserveFile")["properties"]
    names = telemetry.names()
    options: Schema = {}
    for name in names:
        model = telemetry.options_model(name).__name__
        whole = copy.deepcopy(definitions[model])
        whole["properties"] = {**common, **whole.get("properties", {})}
        title = f"{name.title().replace('_', '')}Source"
        definitions[title] = {**whole, "title": f"telemetry source {name}"}
        options[name] = {"anyOf": [{"$ref": f"#/$defs/{title}"}, {"type": "null"}]}
    with_options = {
        "type": "object",
        "properties": options,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {"anyOf": [{"enum": list(names)}, EXPRESSION, with_options]}
