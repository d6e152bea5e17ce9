"""`make messages`: the sentences of reports, gathered from the code into the catalogues that translators fill.

A message is a text in the code that a report can show, with a `{name}` where a value goes. Catalogues are gettext's PO
files (`python/towtank/report/language/*.po`), one a language: every editor of translations knows them. Messages that
are new get an empty translation, those that are gone are dropped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import polib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "towtank"
CATALOGUES = PACKAGE / "report" / "language"
SOURCES = (
    "analysis/**/*.py", "report/**/*.py", "campaign/reasons.py", "campaign/judging.py", "campaign/evidence.py",
    "variables.py", "cost/rules.py", "cost/break_even.py", "store/expressions.py",
    "design/dropped.py",
)  # fmt: skip
LEFT_OUT = (
    "report/interchange", "report/language", "report/html", "report/paper/latex", "report/paper/escape",
    "report/paper/folder", "report/csv_tables.py", "analysis/planning.py",
)  # fmt: skip
"""Files for other tools, this machinery, what translates itself, and what only `towtank plan` prints."""
ENGINE_ADVICE = ROOT / "engine" / "src" / "drive" / "findings.rs"
"""What the load engine advises is said in reports; what it reports is quoted there."""
_RUST_TEXT = re.compile(r'pub const \w+: &str =\s*"([^"]+)";')
WORDS = re.compile(r"[A-Za-z]{2,}[,;:.]? |[ ,;(][A-Za-z]{2,}")
_CODE = re.compile(r"datum\.|<|sans-serif|^[a-z_]+( [a-z_]+)*=|:[NQ]$|^bold |https\?")
_LABELS = frozenset({
    "Column", "Section", "Chip", "Facts", "Document", "Table", "Axis", "Tooltip", "Cell", "say", "Variable",
})  # fmt: skip
"""Calls whose texts are shown even if they are one word."""
TOLD = frozenset({"CannotFitError", "CannotPriceError"})
"""Errors whose texts are reasons in reports."""
_IN_PAGES = re.compile(r'say\("([^"]+)"\)')
_ONE_WORD = re.compile(r"[A-Za-z][a-z]{2,}")
WORDS_OF_OURS = (
    "better", "worse", "equivalent", "not worse", "undecided", "decided", "exploratory", "serious", "warning", "info",
    "valid", "suspect", "invalid", "incomplete", "intact", "degraded", "collapsed", "unknown", "baseline", "contrasts",
    "matters", "confidence", "order", "seed", "profile", "repetitions", "started", "finished", "digest", "Machine",
    "run", "runs", "block", "blocks", "none", "median", "mean", "fastest", "slowest", "goodput", "memory", "cores",
    "and", "Treatment", "treatment", "slow", "throughput", "requests", "is", "in", "or", "to", "of", "variables",
    "{amount} % lower", "{amount} % higher", "{amount} points lower", "{amount} points higher", "{amount} point lower",
    "{amount} point higher", "{n} blocks", "{n} block", "{n} runs a side", "{n} run a side", "{n} cores", "sign flip",
    "mann whitney", "brunner munzel", "freedman lane", "mcnemar", "permutation", "Experiment",
    "fee", "depreciation", "energy", "egress", "logs", "invocations", "request-seconds",
    "table", "users", "arrivals/s", "{amount} users", "{amount} arrivals/s",
    "figure", "{level} interval",
    "{level} simultaneous interval {low}", "fell", "rose", "{n} runs", "{n} run", "{n} points", "{n} point", "each",
    "{treatment} compared with {baseline} is {and}.",
    "lifetime", "environment", "collapses", "all", "randomized blocks", "listed",
    "more", "less", "higher", "lower", "points", "once", "pod", "node", "pods", "nodes",
    "sent", "created", "scheduled", "pulled", "ready", "first byte", "forced", "natural", "wanted", "exactly",
)  # fmt: skip
"""Single words that are put together elsewhere than where they stand."""


def messages() -> dict[str, list[str]]:
    """Message → the modules that it stands in."""
    found: dict[str, list[str]] = {}
    for pattern in SOURCES:
        for path in sorted(PACKAGE.glob(pattern)):
            name = path.relative_to(PACKAGE).as_posix()
            if name.startswith(LEFT_OUT):
                continue
            for message in of_module(path.read_text("utf-8")):
                places = found.setdefault(message, [])
                if name not in places:
                    places.append(name)
    for path in sorted(PACKAGE.glob("report/html/*.j2")):
        for message in _IN_PAGES.findall(path.read_text("utf-8")):
            found.setdefault(message, []).append(path.relative_to(PACKAGE).as_posix())
    for message in _RUST_TEXT.findall(ENGINE_ADVICE.read_text("utf-8")):
        found.setdefault(message, []).append("engine")
    for word in WORDS_OF_OURS:
        found.setdefault(word, ["words"])
    return found


def of_module(source: str) -> Iterator[str]:
    """Messages of one module: texts with words in them, but for docstrings, errors and what is no language."""
    tree = ast.parse(source)
    silent, labels = set(_silent(tree)), set(_labels(tree))
    for node in ast.walk(tree):
        if id(node) in silent or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        message = template(node)
        if not message or _CODE.search(message):
            continue
        said = re.sub(r"\{\w+\}", "", message)
        if WORDS.search(said) or (id(node) in labels and _ONE_WORD.search(said)):
            yield message


def _silent(tree: ast.AST) -> Iterator[int]:
    """Nodes whose texts no report shows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Raise) and not _is_told(node)):
            yield from (id(part) for part in ast.walk(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield from (id(part) for part in node.values)
        elif (
            isinstance(node, ast.Subscript | ast.Call)
            and "Literal" in ast.dump(getattr(node, "value", node))[:60]
        ):
            yield from (id(part) for part in ast.walk(node))


def _is_told(node: ast.Raise) -> bool:
    return isinstance(node.exc, ast.Call) and _name(node.exc.func) in TOLD


def _labels(tree: ast.AST) -> Iterator[int]:
    """Texts that stand in what a report is made of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in _LABELS:
            keywords = [k.value for k in node.keywords if k.arg in ("title", "explanation", "note", "detail")]
            named = _name(node.func) in (
                "Variable",
                "Table",
                "Section",
            )  # their first word is a name for programs
            first = node.args[1:] if named else node.args
            yield from (id(part) for part in (*first, *keywords))


def template(node: ast.expr) -> str:
    """Text of a literal, with the names of what is put in: ``{n} of {of} runs``."""
    if isinstance(node, ast.Constant):
        return _numbered(node.value.strip()) if isinstance(node.value, str) else ""
    if not isinstance(node, ast.JoinedStr):
        return ""
    text, used = "", dict[str, int]()
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            name = _name(part.value)
            used[name] = used.get(name, 0) + 1
            text += f"{{{name}{used[name] if used[name] > 1 else ''}}}"
    return text.strip()


def _numbered(text: str) -> str:
    """Give places without a name one, as in what `str.format` fills."""
    numbers = iter(("x", *(f"x{number}" for number in range(2, 100))))
    return re.sub(r"\{\}", lambda _: f"{{{next(numbers)}}}", text)


def _name(value: ast.expr) -> str:
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_") or "x"
        case ast.Call(func=ast.Name(id="len"), args=[argument]):
            return f"n_{_name(argument)}"
        case ast.Call(func=function):
            return _name(function)
        case _:
            return "x"


def update() -> None:
    """Bring every catalogue up to what the code says."""
    wanted = messages()
    for path in sorted(CATALOGUES.glob("*.po")):
        catalogue = polib.pofile(str(path), wrapwidth=0)
        own = [entry for entry in catalogue if not entry.occurrences]
        known = {entry.msgid: entry.msgstr for entry in catalogue}
        fresh = polib.POFile(wrapwidth=0)
        fresh.metadata = catalogue.metadata
        fresh.header = catalogue.header
        for message, places in sorted(wanted.items(), key=lambda item: (item[1], item[0])):
            occurrences = [(place, "") for place in places]
            fresh.append(polib.POEntry(msgid=message, msgstr=known.get(message, ""), occurrences=occurrences))
        fresh.extend(entry for entry in own if entry.msgid not in wanted)
        fresh.save(str(path))
        print(f"{path.name}: {len(fresh.untranslated_entries())} of {len(fresh)} messages lack a translation")


if __name__ == "__main__":
    update()
