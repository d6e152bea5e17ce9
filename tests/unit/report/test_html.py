import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.sample_analysis import HOSTILE
from towtank import report
from towtank.report.html.page import json_safe

MEGABYTE = 1_000_000


class Page(HTMLParser):
    """What a browser would see: elements with attributes, text by element, inline scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.inline, self.open, self.text = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inline.append((tag, dict(attrs), []))
        if tag not in ("meta", "link", "img", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.inline[-1][2].append(data)
        else:
            self.text.append(data)

    def find(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def seen(page):
    return Page(page)


@pytest.fixture(scope="module")
def attacked(hostile_page):
    return Page(hostile_page)


def policy_of(seen):
    content = next(
        m["content"] for m in seen.find("meta") if m.get("http-equiv") == "Content-Security-Policy"
    )
    return {part.split()[0]: part.split()[1:] for part in content.split(";") if part.strip()}


def digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_is_strict(seen):
    policy = policy_of(seen)
    assert policy["default-src"] == ["'none'"]
    assert policy["img-src"] == ["data:"]
    assert policy["base-uri"] == policy["form-action"] == ["'none'"]
    for directive in ("script-src", "style-src"):
        assert all(re.fullmatch(r"'sha256-[A-Za-z0-9+/=]{44}'", source) for source in policy[directive])


@pytest.mark.parametrize("which", ["seen", "attacked"])
def test_the_policy_allows_exactly_the_scripts_and_styles_in_the_page(which, request):
    seen = request.getfixturevalue(which)
    policy = policy_of(seen)
    scripts = {
        digest("".join(t))
        for tag, a, t in seen.inline
        if tag == "script" and a.get("type") != "application/json"
    }
    styles = {digest("".join(t)) for tag, _, t in seen.inline if tag == "style"}
    assert scripts == set(policy["script-src"])
    assert styles == set(policy["style-src"])


def test_the_policy_comes_before_everything_it_governs(page):
    assert page.index("Content-Security-Policy") < page.index("<style") < page.index("<script")


@pytest.mark.parametrize("which", ["seen", "attacked"])
def test_nothing_is_loaded_and_nothing_runs_inline(which, request):
    seen = request.getfixturevalue(which)
    for tag, attrs in seen.elements:
        assert not [name for name in attrs if name.startswith("on")], (tag, attrs)
        assert "style" not in attrs, (tag, attrs)
        assert tag not in ("img", "iframe", "object", "embed", "base", "form", "foreignobject"), tag
        for name in ("src", "href", "xlink:href", "action", "data"):
            value = attrs.get(name, "#")
            assert value.startswith("#") or value == "data:,", (tag, name, value)


def test_hostile_text_stays_text(attacked, seen):
    assert [t for t, _ in attacked.elements if t in ("script", "style")] == [
        t for t, _ in seen.elements if t in ("script", "style")
    ]
    text = "".join(attacked.text)
    for planted in (
        HOSTILE[0],
        HOSTILE[1],
        HOSTILE[2],
        HOSTILE[4],
        "{{ 7*7 }}{% raw %}",
        r"\x1b[31mred",
        r"\u202e",
        r"\u2028",
    ):
        assert planted in text, planted
    assert "\x1b" not in text
    assert "49" not in next(t for t in attacked.text if "7*7" in t)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(), s, max_size=3),
    )
)
def test_json_cannot_leave_its_script_element(value):
    text = str(json_safe(value))
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)


def test_specifications_parse_and_carry_no_fixed_colour(seen, model):
    specs = [json.loads("".join(t)) for _, a, t in seen.inline if a.get("type") == "application/json"]
    assert len(specs) == len(model.figures)
    for spec in specs:
        assert set(spec) == {"wide", "narrow", "datasets"}
        assert not re.search(r'"#[0-9a-fA-F]{6}"', json.dumps([spec["wide"], spec["narrow"]]))


def test_question_and_answer_come_first(page, model):
    order = [
        page.index(f">{model.question}</h1>"),
        page.index('class="headline"'),
        page.index('class="verdicts"'),
    ]
    order += [page.index(f'<section id="{s.id}"') for s in model.sections]
    assert order == sorted(order)
    assert [s.id for s in model.sections] == [
        "answer-section", "evidence", "threats", "exploratory-section", "descriptive", "repeat", "runs-section",
    ]  # fmt: skip


def test_tables_are_accessible(page, seen, model):
    assert len(seen.find("table")) == len(seen.find("caption")) == len(model.tables)
    assert all(th.get("scope") in ("col", "row") for th in seen.find("th"))
    regions = [d for d in seen.find("div") if d.get("role") == "region"]
    assert len(regions) == len(model.tables)
    ids = {a["id"] for _, a in seen.elements if "id" in a}
    assert all(r["tabindex"] == "0" and r["aria-labelledby"] in ids for r in regions)


def test_ids_are_unique_and_links_lead_somewhere(seen):
    ids = [a["id"] for tag, a in seen.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in seen.find("a")} <= set(ids)


def test_figures_have_a_description_and_a_static_drawing(seen, page, model):
    plots = [d for d in seen.find("div") if d.get("role") == "img"]
    assert [p["aria-label"] for p in plots] == [f.alt for f in model.figures]
    assert page.count('<svg aria-hidden="true"') >= len(model.figures)


def test_everything_needed_to_repeat_is_there(seen, model):
    text = "".join(seen.text)
    for wanted in (
        "towtank run experiment.yaml",
        "seed",
        "9f2c1f9c0d1b4e0c",
        "randomized-blocks",
        "AMD EPYC",
        "0.1.0 (release)",
    ):
        assert wanted in text
    assert "{name: spike, rate: 200/s, hold: 2s}" in text
    assert "block   2:  b02-one-process-a1" in text


def test_every_run_shows_both_axes(model):
    table = next(t for t in model.tables if t.id == "runs")
    assert len(table.rows) == 25
    spoiled = next(r for r in table.rows if r[0].text == "b02-two-processes-a1")
    assert (spoiled[3].text, spoiled[4].text) == ("invalid", "intact")
    assert "41 % of the time" in spoiled[3].note
    collapsed = next(r for r in table.rows if r[0].text == "b04-two-processes-limited-a1")
    assert (collapsed[3].text, collapsed[4].text) == ("valid", "collapsed")


def test_size_stays_small(page):
    assert len(page.encode()) < 3 * MEGABYTE


def test_rendering_is_reproducible(model, page):
    assert report.html.render(model) == page
