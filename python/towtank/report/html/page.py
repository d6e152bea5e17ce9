"""Put the page together: template, styles, scripts, figures; everything inline, everything hashed.

The content-security policy allows exactly the scripts and the style sheet that this module writes, by their
SHA-256. No `unsafe-inline`, no `unsafe-eval`: expressions of figures run in Vega's AST interpreter, and the SVG
carries no style attributes. Specifications stand in `<script type="application/json">`, which browsers never run.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Callable
from importlib import resources

import jinja2
import vl_convert
from markupsafe import Markup

from towtank.report import style
from towtank.report.figures.save import svg, vegalite_version
from towtank.report.language import catalogue
from towtank.report.model import Document, Facts, Figure, Notice, ReportModel, Style, Table

_NOT_WANTED = re.compile(r'\s(?:style|role|aria-[a-z]+)="[^"]*"')
_CLIP = re.compile(r"""(id="|url\(#)clip(\d+)""")
_JSON_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(model: ReportModel) -> str:
    """Return the complete page.

    Parameters
    ----------
    model : ReportModel

    Returns
    -------
    str
        HTML; it needs no other file and makes no request.
    """
    css = (
        _asset("report.css")
        .replace("/*light*/", style.css_variables(style.LIGHT))
        .replace("/*dark*/", style.css_variables(style.DARK))
    )
    page_script, bundle = _asset("page.js"), vega_bundle() if model.figures else ""
    scripts = [s for s in (bundle, page_script) if s]
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            model=model,
            css=Markup(css),  # noqa: S704 - files of this package, nothing from outside
            scripts=[Markup(s) for s in scripts],  # noqa: S704
            policy=_policy(css, scripts),
            kind=_kind,
            static=_static,
            spec=_spec,
            swatch=_swatch,
            say=catalogue(model.language).text,
        )
    )


def _policy(css: str, scripts: list[str]) -> str:
    allowed = " ".join(f"'{_sha256(s)}'" for s in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src '{_sha256(css)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def json_safe(value: object) -> Markup:
    """Return JSON that cannot leave its script element, whatever strings are in it.

    ``<``, ``>`` and ``&`` become escapes, so neither ``</script>`` nor ``<!--`` can occur; U+2028 and U+2029 as well.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char, escape in _JSON_ESCAPES.items():
        text = text.replace(char, escape)
    return Markup(text)  # noqa: S704 - escaped above; tests plant </script>, <!-- and U+2028


def _spec(figure: Figure) -> Markup:
    """Both widths of a figure over one set of datasets, in the colours of the theme."""
    both = {"wide": figure.wide, "narrow": figure.narrow}
    # colours become CSS variables in the specification only: data stays untouched
    themed = json.loads(style.themed(json.dumps(both)))
    return json_safe({**themed, "datasets": figure.datasets})


def _static(figure: Figure) -> Markup:
    """Return the figure as inline SVG in the colours of the theme: what is seen without JavaScript.

    vl-convert escapes all text it draws. Style attributes are taken off, because the policy would refuse them (colours
    are presentation attributes and stay); so are the names of every mark for screen readers, which the description
    of the whole figure replaces.
    """
    drawn = _CLIP.sub(_own_clips(figure.id), _NOT_WANTED.sub("", svg(figure)))
    drawn = style.themed(drawn.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1))
    return Markup(drawn)  # noqa: S704 - see above; tests plant markup in every name


def _own_clips(figure_id: str) -> Callable[[re.Match[str]], str]:
    """Name clip paths after their figure: vl-convert counts them over the life of the process."""
    numbers: dict[str, int] = {}

    def renamed(match: re.Match[str]) -> str:
        number = numbers.setdefault(match.group(2), len(numbers))
        return f"{match.group(1)}{figure_id}-clip{number}"

    return renamed


def _swatch(look: Style) -> Markup:
    """Draw the line and marker of a deployment, as in the figures."""
    dash = " ".join(str(d) for d in style.DASHES[look.dash])
    return Markup(
        '<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true" focusable="false">'
        '<line x1="0" y1="5" x2="26" y2="5" stroke="var(--s{0})" stroke-width="2" stroke-dasharray="{1}"/>'
        '<path d="{2}" fill="var(--s{0})" stroke="var(--paper)" stroke-width="1"/></svg>'
    ).format(look.color, "none" if look.dash == 0 else dash, _MARKER_PATHS[style.MARKERS[look.dash]])


_MARKER_PATHS = {
    "circle": "M9 5a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "square": "M9.4 1.4h7.2v7.2h-7.2Z",
    "triangle-up": "M13 .8L17.6 9H8.4Z",
    "diamond": "M13 .2L17.6 5L13 9.8L8.4 5Z",
    "cross": "M11.6 .8h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8H8.8V3.6h2.8Z",
    "triangle-down": "M13 9.2L17.6 1H8.4Z",
}


def _kind(block: object) -> str:
    names = {Table: "table", Figure: "figure", Notice: "notice", Facts: "facts", Document: "document"}
    return names[type(block)]


@functools.cache
def vega_bundle() -> str:
    """Vega, Vega-Lite, vega-embed and its expression interpreter as one script, from vl-convert, offline."""
    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=vegalite_version())
    # a literal "</script" would end the element early, a carriage return would change the hash
    return text.replace("</script", "<\\/script").replace("<!--", "\\x3c!--").replace("\r\n", "\n").strip()


@functools.cache
def _asset(name: str) -> str:
    text = resources.files("towtank.report.html").joinpath(name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("towtank.report.html", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
