"""Loads from recordings: what a file makes of them, and what is wrong in one, with its line and column."""

from __future__ import annotations

import pytest

from support import refused
from towtank.design import difference, forecast, load_plan
from towtank.design.load_model import Trace
from towtank.design.load_shape import duration_s, expected_arrivals, peak, pieces
from towtank.design.trace_files import read_trace
from towtank.load.job import stages

FILE = """\
experiment: traced
question: Which is faster?
factors: {{deployment: [a, b]}}
repetitions: 2
deployments:
  a: {{platform: external, url: "http://127.0.0.1:1"}}
  b: {{platform: external, url: "http://127.0.0.1:2"}}
workloads:
  w:
    timeout: 2s
    load:
      model: open
      trace: {trace}{more}
    journey: {{steps: [{{name: a}}]}}
"""
HEADER = "HashOwner,HashApp,HashFunction,Trigger,1,2,3,4"
AZURE = f"{HEADER}\no,p,aa11,http,60,0,0,6\no,p,ab22,timer,1,1,1,1\no,q,cc33,queue,0,120,0,0\n"


def made(folder, trace, content, more=""):
    (folder / "trace.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    path = folder / "experiment.yaml"
    path.write_text(FILE.format(trace=trace, more=more), "utf-8")
    return load_plan(path)


def load_of(folder, trace, content, more=""):
    return made(folder, trace, content, more).treatments[0].spec.workload.load


def problems(folder, *args, **kwargs):
    return refused.problems(folder, lambda: made(folder, *args, **kwargs))


def stretches(tmp_path, content, **trace):
    path = tmp_path / "trace.txt"
    path.write_text(content, "utf-8")
    asked = Trace.model_validate({"file": "trace.txt", **trace})
    return [(round(rate, 9), round(length, 9)) for rate, length in read_trace(path, asked).stretches]


def test_timestamps_are_counted_and_left_as_they_are(tmp_path):
    load = load_of(
        tmp_path, "{file: trace.txt, format: timestamps, unit: ms}", "# ms\n0\n500\n\n500\n3999.5\n"
    )
    assert (expected_arrivals(load), duration_s(load)) == (4, pytest.approx(3.999501))
    assert load.falls == "recorded"
    # Three of them in the first of three equal parts.
    assert peak(load) == pytest.approx(3 / (3.999501 / 3))
    longer = load_of(tmp_path, "{file: trace.txt, format: timestamps}", "0\n1\n", "\n      duration: 10s")
    assert (duration_s(longer), expected_arrivals(longer)) == (pytest.approx(10), 2)


def test_a_forecast_knows_the_requests_of_a_trace(tmp_path):
    plan = made(tmp_path, "{file: trace.txt, format: timestamps}", "0\n1\n2\n")
    expected = forecast(plan).treatments[0].requests
    assert (expected.low, expected.high, expected.exact) == (3, 3, True)
    exponential = made(tmp_path, "{file: trace.txt, format: limbo, spacing: exponential}", "0.5,10\n1.5,20\n")
    expected = forecast(exponential).treatments[0].requests
    assert (expected.low, expected.exact) == (pytest.approx(30), False)


def test_limbo_intervals_reach_half_way_to_their_neighbours(tmp_path):
    assert stretches(tmp_path, "0.5,10\n1.5,0\n2.5,30.5\n", format="limbo") == [(10, 1), (0, 1), (30.5, 1)]
    assert stretches(tmp_path, "10,4\n", format="limbo") == [(4, 20)]
    # Recording began after 100 s: until then there is nothing.
    assert stretches(tmp_path, "100.5,10\n101.5,20\n", format="limbo") == [(0, 100), (10, 1), (20, 1)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, [(10, 1), (20, 1), (30, 1)]),
        ({"scale_rate": 0.1}, [(1, 1), (2, 1), (3, 1)]),
        ({"scale_time": 60}, [(10, 60), (20, 60), (30, 60)]),
        ({"start": "500ms", "length": "2s"}, [(10, 0.5), (20, 1), (30, 0.5)]),
        ({"start": "1s", "scale_time": 0.5}, [(20, 0.5), (30, 0.5)]),
    ],
)
def test_a_recording_is_cut_then_scaled(tmp_path, asked, expected):
    assert stretches(tmp_path, "0.5,10\n1.5,20\n2.5,30\n", format="limbo", **asked) == expected


@pytest.mark.parametrize(
    ("functions", "counts"),
    [
        ("all", [61, 121, 1, 7]),
        ({"index": [1]}, [1, 1, 1, 1]),
        ({"index": [0, 2]}, [60, 120, 0, 6]),
        ({"hash": ["ab"]}, [1, 1, 1, 1]),
        ({"hash": ["a"]}, [61, 1, 1, 7]),
        ({"top": 1}, [0, 120, 0, 0]),
        ({"top": 2}, [60, 120, 0, 6]),
    ],
)
def test_functions_of_azure_are_chosen_and_added_up(tmp_path, functions, counts):
    found = stretches(tmp_path, AZURE, format="azure2019", functions=functions)
    assert found == [(round(count / 60, 9), 60) for count in counts]


@pytest.mark.parametrize(
    ("spacing", "falls", "exact"),
    [("equidistant", "uniform", True), ("uniform", "scattered", True), ("exponential", "poisson", False)],
)
def test_spacing_is_a_way_of_arriving(tmp_path, spacing, falls, exact):
    load = load_of(tmp_path, f"{{file: trace.txt, format: azure2019, spacing: {spacing}}}", AZURE)
    assert (load.falls, load.is_counted, expected_arrivals(load)) == (falls, exact, pytest.approx(190))
    assert [round(piece.area) for piece in pieces(load)] == [61, 121, 1, 7]


def test_a_long_trace_is_one_stage_of_the_figures(tmp_path):
    minutes = 1440
    header = ",".join(["HashOwner,HashApp,HashFunction,Trigger", *map(str, range(1, minutes + 1))])
    row = ",".join(["o,a,f,http", *(str(minute % 7) for minute in range(minutes))])
    load = load_of(tmp_path, "{file: trace.txt, format: azure2019}", f"{header}\n{row}\n")
    assert len(pieces(load)) == minutes
    assert [(s.name, s.start_us, s.end_us) for s in stages(load)] == [("trace.txt", 0, 86_400_000_000)]


def test_a_changed_trace_is_a_changed_experiment(tmp_path):
    trace = "{file: trace.txt, format: limbo}"
    before, same = made(tmp_path, trace, "0.5,10\n"), made(tmp_path, trace, "0.5,10\n")
    after = made(tmp_path, trace, "0.5,11\n")
    assert before.digest == same.digest != after.digest
    assert before.treatments[0].spec.kept_files.keys() == {"trace.txt"}
    assert any("trace.txt" in line for line in difference(before, after))


@pytest.mark.parametrize(
    ("trace", "content", "found"),
    [
        ("format: timestamps", "0\n-1\n", "trace.txt:2:1: -1 is negative"),
        ("format: timestamps", "0\n\n2\n 1\n", "trace.txt:4:2: 1 comes after 2; timestamps must be in order"),
        ("format: timestamps", "0\nsoon\n", "trace.txt:2:1: 'soon' is no number"),
        ("format: timestamps", "0\nnan\n", "trace.txt:2:1: 'nan' is no number"),
        ("format: timestamps", "0\n1e999\n", "trace.txt:2:1: 1e999 is not finite"),
        ("format: timestamps", "0\n1_0\n", "trace.txt:2:1: '1_0' is no number"),
        ("format: timestamps", "0\n２\n", "trace.txt:2:1: '２' is no number"),
        ("format: limbo", "0.5,1_0\n", "trace.txt:1:5: '1_0' is no number"),
        ("format: limbo", "+0.5,1\n", "trace.txt:1:1: '+0.5' is no number"),
        ("format: limbo", "0.5,２\n", "trace.txt:1:5: '２' is no number"),
        (
            "format: azure2019",
            f"{HEADER}\no,a,f,http,1_0,2,3,4\n",
            "trace.txt:2:12: '1_0' is no whole number",
        ),
        ("format: azure2019", f"{HEADER}\no,a,f,http,1, +5,3,4\n", "trace.txt:2:14: '+5' is no whole number"),
        ("format: azure2019", f"{HEADER}\no,a,f,http,1,２,3,4\n", "trace.txt:2:14: '２' is no whole number"),
        (
            "format: azure2019",
            f"{HEADER}\no,a,f,http,1,1 2,3,4\n",
            "trace.txt:2:14: '1 2' is no whole number",
        ),
        (
            "format: azure2019",
            f"{HEADER}\no,a,f,http,1,{'9' * 400},3,4\n",
            "trace.txt:2:14: '999999999",
        ),
        ("format: limbo", "500000,1\n", "trace.txt:1:1: the trace lasts 277 h 47 min; at most 7 days"),
        ("format: timestamps", "# nothing\n", "trace.txt:1:1: the trace has no timestamps"),
        ("format: timestamps", "0\n9999999\n", "trace.txt:2:1: 9999999 is later than a run may last"),
        ("format: timestamps", b"0\n1\xff\n", "trace.txt:2:2: byte 0xff is not UTF-8"),
        ("format: limbo", "0.5,1\n1.5\n", "trace.txt:2:1: 1 fields; expected is midpoint,rate"),
        ("format: limbo", "0.5,1\n1.5,-2\n", "trace.txt:2:5: -2 is negative"),
        ("format: limbo", "1.5,1\n0.5,1\n", "trace.txt:2:1: midpoint 0.5 is not above 1.5"),
        ("format: limbo", "0.5,x\n", "trace.txt:1:5: 'x' is no number"),
        ("format: limbo", "0.5,1\n2.5,1\n", "trace.txt:1:1: the first interval would begin at -0.5 s"),
        ("format: limbo", "", "trace.txt:1:1: the trace has no intervals"),
        ("format: limbo", "0.5,0\n1.5,0\n", "trace.txt:1:1: no interval has a rate above 0"),
        ("format: limbo, start: 5s", "0.5,1\n1.5,1\n", "`start` leaves nothing of a recording of 2 s"),
        ("format: limbo, length: 5s", "0.5,1\n1.5,1\n", "the recording ends after 2 s"),
        ("format: azure2019", "time,rate\n1,2\n", "trace.txt:1:1: the header begins with 'time,rate'"),
        ("format: azure2019", "HashOwner,HashApp,HashFunction,Trigger,1,3\n", "trace.txt:1:42: column '3'"),
        (
            "format: azure2019",
            f"{HEADER}\no,a,f,http,1,2,3\n",
            "trace.txt:2:1: 7 fields, where the header has 8",
        ),
        ("format: azure2019", f"{HEADER}\no,a,f,http,1,2,-3,4\n", "trace.txt:2:16: '-3' is negative"),
        (
            "format: azure2019",
            f"{HEADER}\no,a,f,http,1,2.5,3,4\n",
            "trace.txt:2:14: '2.5' is no whole number",
        ),
        ("format: azure2019", f"{HEADER}\n", "trace.txt:1:1: the trace has a header and no rows"),
        ("format: azure2019, functions: {hash: [zz]}", AZURE, "no HashFunction begins with 'zz'"),
        ("format: azure2019, functions: {index: [3]}", AZURE, "there is no function 3; the trace has 3"),
        ("format: azure2019, functions: {top: 4}", AZURE, "the trace has 3 functions; `top` asks for 4"),
    ],
)
def test_each_mistake_in_a_file_has_its_place(tmp_path, trace, content, found):
    told = problems(tmp_path, f"{{file: trace.txt, {trace}}}", content)
    assert any(found in line for line in told), told


@pytest.mark.parametrize(
    ("trace", "more", "found"),
    [
        ("{file: gone.txt, format: limbo}", "", "there is no file 'gone.txt'"),
        ("{file: ../x, format: limbo}", "", "outside"),
        ("{file: trace.txt, format: csv}", "", "'csv'"),
        ("{file: trace.txt, format: limbo, unit: s}", "", "`unit` is for timestamps"),
        ("{file: trace.txt, format: timestamps, spacing: uniform}", "", "`spacing` is for rates"),
        ("{file: trace.txt, format: limbo, functions: all}", "", "`functions` is for the format azure2019"),
        ("{file: trace.txt, format: azure2019, functions: some}", "", "'some' is not `all`"),
        ("{file: trace.txt, format: azure2019, functions: {top: 1, index: [0]}}", "", "needs one of `top`"),
        ("{file: trace.txt, format: limbo, scale_rate: 0}", "", "more than 0"),
        ("{file: trace.txt, format: limbo}", "\n      rate: 5/s", "`rate` and `trace` exclude each other"),
        ("{file: trace.txt, format: limbo}", "\n      arrivals: poisson", "write `spacing` in the trace"),
        ("{file: trace.txt, format: limbo}", "\n      duration: 1s", "write `length` in the trace"),
        ("{file: trace.txt, format: limbo}", "\n      warmup: 5s", "leaves nothing of a load of 1 s"),
    ],
)
def test_each_mistake_in_the_experiment_has_its_place(tmp_path, trace, more, found):
    told = problems(tmp_path, trace, "0.5,10\n", more=more)
    assert any(found in line and "experiment.yaml:" in line for line in told), told


def test_a_byte_order_mark_is_no_part_of_a_trace(tmp_path):
    assert stretches(tmp_path, "\ufeff0.5,10\n1.5,20\n", format="limbo") == [(10, 1), (20, 1)]
    assert expected_arrivals(load_of(tmp_path, "{file: trace.txt, format: timestamps}", "\ufeff0\n1\n")) == 2
