"""The report in a real browser: drawn, silent, without network, under its strict policy."""

import pytest

from support.browser import CHROMIUM, chromium, opened
from support.sample_analysis import hostile_analysis, sample_analysis
from towtank import report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not CHROMIUM.exists(), reason=f"chromium is not installed ({CHROMIUM}): apt install chromium"
    ),
]

FIGURES = 11
WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    written = {}
    for name, analysis in (("sample", sample_analysis()), ("hostile", hostile_analysis())):
        written[name] = folder / f"{name}.html"
        written[name].write_text(report.html.render(report.build(analysis)), encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


def assert_quiet(seen, path):
    assert seen.errors == []
    assert seen.console == []
    assert seen.violations() == []
    assert seen.requests == [path.as_uri()]


def test_the_recorder_would_notice(browser, pages, tmp_path):
    """The other tests prove something only if a page that misbehaves is caught."""
    bad = tmp_path / "bad.html"
    text = pages["sample"].read_text(encoding="utf-8")
    planted = (
        '<p style="color: red"></p><script>console.log("ran")</script><img src="https://evil.example/x.png">'
    )
    bad.write_text(text.replace("</main>", f"{planted}</main>"), encoding="utf-8")
    with opened(browser, bad) as seen:
        directives = {violation.split()[0] for violation in seen.violations()}
        assert directives == {"style-src-attr", "script-src-elem", "img-src"}
        assert not any("ran" in message and "log:" in message for message in seen.console)
        assert seen.console != []


MARKS = """
() => [...document.querySelectorAll('figure.figure')].map(figure => {
  const svg = figure.querySelector('.live svg'), box = svg.getBoundingClientRect();
  return {id: figure.id, width: box.width, height: box.height, drawn: figure.dataset.drawn,
          marks: svg.querySelectorAll('[class*=mark-] path, [class*=mark-] line').length,
          hidden: figure.querySelector('.static').hidden};
})
"""


@pytest.mark.parametrize("which", ["sample", "hostile"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_figure_is_drawn_and_nothing_complains(browser, pages, which, width, dark):
    with opened(browser, pages[which], width=width, dark=dark) as seen:
        drawn = seen.page.evaluate(MARKS)
        assert len(drawn) == FIGURES
        for figure in drawn:
            assert figure["drawn"] == ("narrow" if width < 700 else "wide"), figure
            assert figure["width"] > 250, figure
            assert figure["height"] > 80, figure
            assert figure["marks"] >= 4, figure
            assert figure["hidden"], figure
        assert_quiet(seen, pages[which])


@pytest.mark.parametrize("which", ["sample", "hostile"])
@pytest.mark.parametrize("width", [320, *WIDTHS])
def test_nothing_overflows_the_page(browser, pages, which, width):
    with opened(browser, pages[which], width=width) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        wider = seen.page.evaluate(
            """() => [...document.querySelectorAll('main > *, main section > *')]
                 .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
        )
        assert wider == []


LONGER = """
() => {
  for (const one of document.querySelectorAll('#latency td .detail')) one.textContent += ' to ' + one.textContent;
}
"""
WIDER = "() => document.querySelectorAll('#latency td .value').forEach(v => v.textContent = '1,234,567,890.123 ms')"
BOX = """
() => {
  const box = document.querySelector('#latency .scroll'), last = box.querySelector('tbody tr td:last-child');
  const first = box.querySelector('tbody th'), right = element => element.getBoundingClientRect().right;
  box.scrollLeft = box.scrollWidth;
  return {wide: box.scrollWidth > box.clientWidth, cut: right(last) > right(box) + 1,
          named: first.getBoundingClientRect().left >= box.getBoundingClientRect().left - 1,
          page: document.documentElement.scrollWidth};
}
"""


def test_a_table_of_many_columns_breaks_its_lines_and_then_scrolls_in_its_box(browser, pages):
    with opened(browser, pages["sample"], width=1100) as seen:
        seen.page.evaluate(LONGER)
        assert seen.page.evaluate(BOX) == {"wide": False, "cut": False, "named": True, "page": 1100}
        seen.page.evaluate(WIDER)
        assert seen.page.evaluate(BOX) == {"wide": True, "cut": False, "named": True, "page": 1100}


def test_both_themes_have_their_colours_everywhere(browser, pages):
    line = "getComputedStyle(document.querySelector('#percentiles .live .mark-line path')).stroke"
    with opened(browser, pages["sample"]) as seen:
        page = seen.page
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate(line) == "rgb(0, 114, 178)"
        for _ in range(2):  # auto → light → dark
            page.click("#theme")
        assert page.inner_text("#theme") == "Theme: dark"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        assert page.evaluate(line) == "rgb(86, 169, 240)"
        assert_quiet(seen, pages["sample"])


def test_without_scripts_the_static_figures_are_seen(browser, pages):
    with opened(browser, pages["sample"], scripts=False) as seen:
        page = seen.page
        assert page.locator("figure.figure .static svg").count() == FIGURES
        for index in range(FIGURES):
            box = page.locator("figure.figure .static svg").nth(index).bounding_box()
            assert box["width"] > 500
            assert box["height"] > 80
        assert not page.locator("#theme").is_visible()
        assert page.locator("main").inner_text().count("two-processes-limited") > 10
        assert seen.requests == [pages["sample"].as_uri()]
        assert seen.console == []


def test_without_scripts_a_phone_scrolls_figures_in_their_own_box(browser, pages):
    with opened(browser, pages["sample"], width=390, scripts=False) as seen:
        assert seen.page.locator("figure.figure .plot").first.bounding_box()["width"] <= 390
        assert seen.page.locator("figure.figure .static svg").first.bounding_box()["width"] >= 600


def test_a_table_sorts_by_its_numbers_with_the_keyboard(browser, pages):
    with opened(browser, pages["sample"]) as seen:
        page = seen.page
        column = [h.strip() for h in page.locator("#runs thead th").all_inner_texts()].index("p95")
        page.locator("#runs thead th button").nth(column).focus()
        page.keyboard.press("Enter")
        first = page.locator("#runs tbody tr").first.locator("th, td").nth(column).inner_text()
        last = page.locator("#runs tbody tr").last.locator("th, td").nth(column).inner_text()
        assert first.endswith("ms")
        assert last == "> 2 s"
        assert page.locator("#runs thead th").nth(column).get_attribute("aria-sort") == "ascending"
        page.keyboard.press("Enter")
        assert page.locator("#runs tbody tr").first.locator("th, td").nth(column).inner_text() == "> 2 s"
        assert_quiet(seen, pages["sample"])


def test_a_tooltip_says_what_a_mark_is(browser, pages):
    with opened(browser, pages["sample"]) as seen:
        page = seen.page
        page.locator("#forest .live .mark-symbol path").first.hover()
        tip = page.locator("#vg-tooltip-element")
        tip.wait_for(state="visible")
        assert "−66.9 %" in tip.inner_text()
        assert_quiet(seen, pages["sample"])


def test_a_tooltip_of_a_hostile_name_is_text(browser, pages):
    with opened(browser, pages["hostile"]) as seen:
        page = seen.page
        page.locator("#forest .live .mark-symbol path").first.hover()
        tip = page.locator("#vg-tooltip-element")
        tip.wait_for(state="visible")
        assert "<script>alert(2)</script>" in tip.inner_text()
        assert tip.locator("script, img").count() == 0
        assert_quiet(seen, pages["hostile"])


def test_a_phone_that_is_turned_gets_the_other_figures(browser, pages):
    with opened(browser, pages["sample"], width=390) as seen:
        seen.page.set_viewport_size({"width": 1000, "height": 500})
        seen.page.wait_for_function(
            "document.querySelector('#ecdf').dataset.drawn === 'wide'", timeout=20_000
        )
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 1000


def test_print_opens_what_is_folded(browser, pages):
    with opened(browser, pages["sample"]) as seen:
        page = seen.page
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open]):not(.small)").count() == 0
        page.emulate_media(media="print")
        assert not page.locator("#theme").is_visible()
        page.set_viewport_size({"width": 718, "height": 1000})  # A4 less 1 cm margins
        assert page.evaluate("document.documentElement.scrollWidth") <= 718
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == 0
        assert len(page.pdf()) > 50_000
