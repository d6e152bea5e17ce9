"""Reports in other languages: no message is missing, no sentence stays English, the experiment's words stay."""

from __future__ import annotations

import importlib.util
import io
import json
import re
from pathlib import Path

import polib
import pytest
from rich.console import Console

from support.make_results import SPIKE, TreatmentModel, make_results
from towtank import report
from towtank.analysis import analyse
from towtank.errors import TowtankError
from towtank.report import output
from towtank.report.figures.save import svg
from towtank.report.language import catalogue, languages, translated
from towtank.report.model import Document, Facts, Figure, Notice, Table
from towtank.store import Results

ROOT = Path(__file__).resolve().parents[3]
OTHERS = [language for language in languages() if language != "en"]
INVENTED = re.compile(r"the engine was late|give the engine a core|exited with code|lag p99|its own$")
"""What the synthetic runs say of themselves: no message of the code."""
PLACE = re.compile(r"\{(\w+)\}")


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("messages", ROOT / "tools" / "messages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_results(
        tmp_path_factory.mktemp("language") / "results",
        treatments={
            "one": TreatmentModel(median_ms=10),
            "better": TreatmentModel(median_ms=6, instances=2, invalid=(4,), suspect=(2,), unfinished=(5,)),
            "three": TreatmentModel(median_ms=10, collapsed=(1, 2, 3, 4, 5), errors=0.02, timeouts=0.02),
        },
        blocks=5, duration_s=4.0, rate_per_s=20.0, stages=SPIKE, slo={"p95": 0.2, "goodput": 0.99},
    )  # fmt: skip


@pytest.fixture(scope="module")
def english(folder):
    return report.build(analyse(Results.open(folder)))


@pytest.fixture(scope="module")
def portuguese(english):
    return translated(english, "pt")


def said(model):
    """Every text that a report says of itself."""
    yield from (model.headline, model.caution, *(chip.text for chip in model.chips))
    for answer in model.answers:
        yield from (answer.verdict, answer.claim, answer.sentence)
    for section in model.sections:
        yield from (section.title, section.short, section.intro)
        for block in section.blocks:
            match block:
                case Table():
                    yield from (block.caption, block.remark)
                    yield from (text for c in block.columns for text in (c.title, c.explanation))
                    cells = (cell for row in block.rows for cell in row)
                    yield from (text for c in cells for text in (c.text, c.note, c.detail))
                case Figure():
                    yield from (block.title, block.caption, block.alt)
                case Notice():
                    yield from (block.message, block.advice)
                case Facts():
                    yield block.title
                case Document():
                    pass


@pytest.mark.parametrize("language", OTHERS)
def test_no_message_is_missing(tool, language):
    wanted = set(tool.messages())
    entries = polib.pofile(str(tool.CATALOGUES / f"{language}.po"))
    there = {entry.msgid for entry in entries if entry.translated()}
    assert sorted(wanted - there) == [], "run python tools/messages.py, and translate what it lists"
    assert sorted(there - wanted) == [], "no longer in the code: run python tools/messages.py"


@pytest.mark.parametrize("language", OTHERS)
def test_translations_have_the_places_of_their_messages(tool, language):
    for entry in polib.pofile(str(tool.CATALOGUES / f"{language}.po")):
        lost = set(PLACE.findall(entry.msgid)) ^ set(PLACE.findall(entry.msgstr))
        assert lost <= {"article"}, entry.msgid
        assert entry.msgstr == entry.msgstr.strip(), entry.msgid


def test_messages_are_found_in_code(tool):
    source = '''
"""No message: a docstring."""
def f(n, of):
    if n < 0:
        raise ValueError("no message: an error")
    return Column("Title"), f"{n} of {len(of)} runs failed; {n} more", "plain", kind == "two words"
'''
    assert set(tool.of_module(source)) == {"Title", "{n} of {n_of} runs failed; {n2} more", "two words"}


def test_a_portuguese_report_has_no_english_sentence(english):
    say = catalogue("pt").with_names(name for name, _ in english.legend)
    left = {piece: text for text in said(english) for piece in say.unread(text)}
    assert {piece: text for piece, text in left.items() if not INVENTED.search(f"{piece} {text}")} == {}


@pytest.mark.parametrize(
    ("english", "portuguese"),
    [
        ("What happened over time: users 25", "O que aconteceu ao longo do tempo: users 25"),
        ("throughput over replicas", "débito sobre replicas"),
        (
            "Each mark is one contrast, the bar its 95 % interval, simultaneous over all claims.",
            "Cada marca é um contraste, a barra o seu intervalo de 95 %, simultâneo sobre todas as afirmações.",
        ),
        ("Method: t over blocks, 7 degrees of freedom.", "Método: t sobre blocos, 7 graus de liberdade."),
        ("± 5 % or ± 1 point", "± 5 % ou ± 1 ponto"),
        (
            "about 38 blocks (1 h 3 min at the pace so far) would show a difference of 5 % if there is one",
            "cerca de 38 blocos (1 h 3 min ao ritmo atual) mostrariam uma diferença de 5 %, se existir",
        ),
        (
            "P95 latency of beta · rate=20 cannot be told from that of quick · rate=20",
            "Latência p95 de beta · rate=20 não se distingue da de quick · rate=20",
        ),
        (
            "P95 latency of a · linear is below that of b · linear in 2 of 3 blocks",
            "Latência p95 de a · linear está abaixo da de b · linear em 2 de 3 blocos",
        ),
        (
            "The load engine reported in 2 runs: “1 % of the requests were late”.",
            "O motor de carga comunicou em 2 execuções: “1 % of the requests were late”.",
        ),
        (
            "build with --release; times of a debug build are not measurements",
            "compile com --release; tempos de uma compilação de depuração não são medições",
        ),
        ("It could not serve the load.", "Não conseguiu servir a carga."),
        (
            "54 runs invalid (left out of every number and repeated); the worst of them: lag 2 s",
            "54 execuções inválidas (deixadas fora de todos os números e repetidas); a pior delas: lag 2 s",
        ),
    ],
)
def test_messages_of_few_words_are_laid_over_nothing_else(english, portuguese):
    """``{one} over {other}`` fits many sentences; it counts only where no other message says more of them."""
    assert catalogue("pt").text(english) == portuguese


def test_labels_in_figures_are_read_part_by_part(english, portuguese):
    say = catalogue("pt")
    assert say.label("p95 latency ↓ · two in order ÷ one") == "latência p95 ↓ · two in order ÷ one"
    assert say.label("−2.9 points") == "−2.9 pontos"
    assert say.label("run of requests 7") == "run of requests 7"
    forest = next(f for f in portuguese.figures if f.id == "forest")
    rows = [row["row"] for rows in forest.datasets.values() for row in rows if "row" in row]
    assert rows
    assert not [row for row in rows if "latency" in row]
    ordered = json.dumps(forest.wide, ensure_ascii=False)
    assert all(json.dumps(row, ensure_ascii=False) in ordered for row in rows), (
        "axes are ordered by the same words"
    )


def test_why_a_run_failed_is_quoted():
    """Messages of errors are not translated; what is said about them is."""
    assert catalogue("pt").text("the run failed: “no such file: in the way”") == (
        "a execução falhou: “no such file: in the way”"
    )
    cut_off = (
        "3 attempt(s) were cut off before they were judged, and count for nothing: “not found. In the path”."
    )
    assert catalogue("pt").text(cut_off).endswith("e não contam para nada: “not found. In the path”.")
    assert "objetivos" in catalogue("pt").text(
        "they were searched for different objectives, p95 500 ms and goodput 99.9 % against p95 300 ms"
    )


def test_bills_and_why_there_is_no_cost_are_said_in_portuguese():
    say = catalogue("pt")
    why = "gke: node-seconds are not known: add `kubernetes` to `observe`"
    assert say.text(why) == "gke: os nó-segundos não se conhecem: acrescente `kubernetes` a `observe`"
    assert say.text("No line of gke: it has no price list.") == "Sem linha de gke: não tem lista de preços."
    sizes = say.text("what one pod requests is not known: write its `vcpu` and `memory` in `cost`")
    assert sizes == "não se sabe o que um pod pede: escreva os seus `vcpu` e `memory` em `cost`"
    crossing = "a is cheaper than b from 3.29 M to 3.46 M requests a day (3 M to 4 M)"
    assert say.text(crossing) == "a é mais barato do que b de 3.29 M a 3.46 M pedidos por dia (3 M a 4 M)"
    assert [say.text(item) for item in ("requested vCPU", "fee", "10 users")] == [
        "vCPU pedida",
        "taxa",
        "10 utilizadores",
    ]


def test_it_says_what_the_english_one_says(english, portuguese):
    assert "entrou em colapso em 5 de 5 execuções" in portuguese.headline
    assert re.search(r"better comparado com one: \w+ em latência p95", portuguese.headline)
    for texts in (english, portuguese):
        numbers = [re.findall(r"\d+", text) for text in said(texts)]
        assert sum(map(len, numbers)) > 500
    changed = [
        (one, other)
        for one, other in zip(said(english), said(portuguese), strict=True)
        if sorted(re.findall(r"\d+", one)) != sorted(re.findall(r"\d+", other))
    ]
    assert changed == []


def test_what_is_the_experiments_stays(english, portuguese):
    assert portuguese.question == english.question
    assert [name for name, _ in portuguese.legend] == ["one", "better", "three"]
    firsts = {row[0].text for table in portuguese.tables if table.id == "treatments" for row in table.rows}
    assert firsts == {"one", "better", "three"}, "a deployment that is called like a verdict keeps its name"
    documents = [
        [b.text for s in model.sections for b in s.blocks if isinstance(b, Document)]
        for model in (english, portuguese)
    ]
    assert documents[0] == documents[1]


def test_every_form_of_the_report_is_in_the_language(portuguese):
    page = report.html.render(portuguese)
    assert '<html lang="pt">' in page
    assert "O que significam as colunas" in page
    assert 'data-dark="Tema: escuro"' in page
    assert 'class="notice serious"' in page, "what styles go by is no text"
    text = report.markdown.render(portuguese)
    assert "Experimento synthetic" in text
    console = Console(file=io.StringIO(), width=200)
    report.terminal.show(portuguese, console, runs=True)
    shown = console.file.getvalue()
    assert "Constatações e ameaças à validade" in shown
    assert "Instrumento" in shown
    for form in (page, text, shown):
        for sentence in (
            "Findings and threats",
            "What is claimed",
            "mean over runs",
            "The answer in numbers",
        ):
            assert sentence not in form


def test_figures_are_in_the_language(portuguese):
    ecdf = next(figure for figure in portuguese.figures if figure.id == "ecdf")
    drawn = svg(ecdf)
    assert "parte dos pedidos previstos" in drawn
    assert "share of requests due" not in drawn


def test_english_needs_no_catalogue(english):
    assert translated(english, "en") is english
    assert catalogue("en").text("one value a run") == "one value a run"


def test_a_language_without_a_catalogue_is_refused(english):
    with pytest.raises(TowtankError, match="no report in the language 'tlh'; there is en and pt"):
        translated(english, "tlh")


def test_it_is_written_beside_the_english_one(english, portuguese, tmp_path):
    for model, ending in ((portuguese, ".pt"), (english, "")):
        written = output.write_model(model, tmp_path)
        assert (written.html.name, written.markdown.name) == (f"report{ending}.html", f"report{ending}.md")
    assert len(list(tmp_path.iterdir())) == 4
