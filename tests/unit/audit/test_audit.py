"""Tables that are right are never called wrong, however they are rounded; changed ones are found."""

import csv
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towtank.audit import audit
from towtank.audit.printed import Range, read_number
from towtank.errors import ForeignFileError


def look(folder, rows, *, name="table.csv", **options):
    """Audit one table that is given as dictionaries of texts."""
    return audit([written(folder, rows, name=name)], **options)


def written(folder, rows, *, name="table.csv"):
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def rules(found):
    return {problem.rule for problem in found.problems}


# --- printed numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("26.2", "26.15", "26.25"),
        ("26.20", "26.195", "26.205"),
        ("327,921", "327920.5", "327921.5"),
        ("−24.4 %", "-24.45", "-24.35"),
        ("2.568e-5", "0.0000256750", "0.0000256850"),
        ("≈2000", "1500", "2500"),
        ("<5", "0", "5.5"),
    ],
)
def test_a_printed_number_is_all_that_print_like_it(text, low, high):
    assert read_number(text) == Range(Fraction(low), Fraction(high))


def test_what_is_counted_is_exact_unless_it_says_otherwise():
    assert read_number("327921", count=True) == Range.exactly(327921)
    assert read_number("≈328000", count=True) == Range(Fraction(327500), Fraction(328500))
    assert read_number(">30").high is None
    assert read_number("5", slack=2) == Range(Fraction(4), Fraction(6))


@pytest.mark.parametrize("text", ["", " ", "–", "-", "n/a"])
def test_nothing_printed(text):
    assert read_number(text) is None


@pytest.mark.parametrize("text", ["abc", "1.2.3", "1,23", "12 ms", "--3", "1e999", "9" * 60, "inf", "%5"])
def test_no_number(text):
    with pytest.raises(ValueError, match="is not a number"):
        read_number(text)


# --- what published studies print -----------------------------------------------------------------------

IOT = {
    # user-seconds and mean latencies of an IoT platform on reserved nodes and paid by use; facts as printed
    "reserved": {
        "total": "327921", "user_seconds": "90000", "pause_s": "0.25", "mean_ms": "23.7", "duration_s": "1800",
        "node_seconds": "3600", "price_per_node_second_ct": "0.0087959", "fee_per_second_ct": "0.0024996",
        "price_per_request_ct": "", "price_per_request_second_ct": "", "cost_ct": "36.1645",
        "cost_per_1000_ct": "0.1103",
    },
    "by use": {
        "total": "325239", "user_seconds": "90000", "pause_s": "0.25", "mean_ms": "25.94", "duration_s": "1800",
        "node_seconds": "", "price_per_node_second_ct": "", "fee_per_second_ct": "", "price_per_request_ct": "2.568e-5",
        "price_per_request_second_ct": "9.122e-4", "cost_ct": "16.05", "cost_per_1000_ct": "0.0493",
    },
}  # fmt: skip


def test_published_cost_and_totals_of_the_iot_study_hold(tmp_path):
    found = look(tmp_path, [{"deployment": name, **row} for name, row in IOT.items()])
    assert found.problems == ()
    assert found.checks == 2 + 2 + 1 + 1  # closed loop and per 1,000 in both, reserved, by use


@pytest.mark.parametrize(
    ("row", "column", "wrong", "rule"),
    [
        ("reserved", "cost_ct", "36.2645", "reserved"),
        ("reserved", "cost_per_1000_ct", "0.1130", "per-1000"),
        ("reserved", "total", "227921", "closed-loop"),
        ("by use", "cost_ct", "16.50", "by-use"),
        ("by use", "mean_ms", "52.94", "closed-loop"),
    ],
)
def test_one_changed_cell_of_it_is_found_with_the_arithmetic(tmp_path, row, column, wrong, rule):
    table = [{"deployment": name, **cells} for name, cells in IOT.items()]
    changed = next(cells for cells in table if cells["deployment"] == row)
    changed[column] = wrong
    found = look(tmp_path, table)
    assert rule in rules(found)
    problem = next(p for p in found.problems if p.rule == rule)
    assert column in problem.columns
    assert problem.row == row
    assert problem.line == 2 + table.index(changed)
    assert "=" in problem.message
    assert wrong in problem.message


def test_published_changes_of_the_storage_study_hold(tmp_path):
    reads = [
        {"backend": "nfs", "mean_ms": "119", "mean_ms_change_percent": ""},
        {"backend": "ceph", "mean_ms": "90", "mean_ms_change_percent": "−24.4"},
    ]
    wiki = [
        {"users": "25", "throughput_per_s": "28.44", "throughput_per_s_change_percent": "0",
         "median_ms": "13", "median_ms_change_percent": "0"},
        {"users": "50", "throughput_per_s": "52.15", "throughput_per_s_change_percent": "+83.4",
         "median_ms": "21", "median_ms_change_percent": "+61.5"},
    ]  # fmt: skip
    assert look(tmp_path, reads).problems == ()
    assert look(tmp_path, wiki).problems == ()
    reads[1]["mean_ms_change_percent"] = "−32.2"  # against the larger one
    found = look(tmp_path, reads)
    assert rules(found) == {"change"}
    assert "90 ÷ 119" in found.problems[0].message


def test_published_goodput_of_few_requests(tmp_path):
    """698 requests with 89.1 % and 664 with 69.0 %: 76 and 206 failures print so; no number prints as 89.15 %."""
    rows = [
        {"deployment": "openwhisk", "total": "698", "goodput_percent": "89.1"},
        {"deployment": "cloud run", "total": "664", "goodput_percent": "69.0"},
        {"deployment": "gke", "total": "38,535", "goodput_percent": "100"},
    ]
    assert look(tmp_path, rows).problems == ()
    rows[0]["goodput_percent"] = "89.15"
    found = look(tmp_path, rows)
    assert rules(found) == {"whole"}
    assert "89.15 % of 698 requests = 622.232 to 622.302" in found.problems[0].message


def test_published_status_shares(tmp_path):
    """76.25 % answered 200 and 23.75 % answered 503; where only 200 is printed, nothing is said of the rest."""
    row = {"status_200_percent": "76.25", "status_503_percent": "23.75"}
    assert look(tmp_path, [row]).problems == ()
    assert rules(look(tmp_path, [{**row, "status_503_percent": "32.75"}])) == {"shares"}
    partly = {"status_200_percent": "39.2", "status_503_percent": "20", "status_other_percent": ""}
    assert look(tmp_path, [partly]).problems == ()
    assert rules(look(tmp_path, [{**partly, "status_503_percent": "70"}])) == {"shares"}


# --- generated tables: right ones, rounded at random ----------------------------------------------------


def printed(value, digits):
    return f"{value:.{digits}f}"


def right_row(seed, coarsest=0):
    """A row of a run that could have been: values drawn, everything computed from them, then rounded at random."""
    rng = np.random.default_rng(seed)
    digits = lambda: int(rng.integers(coarsest, 5))  # noqa: E731
    n = int(rng.integers(2, 400))
    values = np.exp(rng.normal(rng.uniform(0, 6), rng.uniform(0, 2), n))
    ddof = int(rng.integers(0, 2))
    total = n + int(rng.integers(0, 50))
    pause, cost = float(rng.uniform(0, 2)), float(rng.uniform(0.01, 90))
    elapsed = float(rng.uniform(5, 900))
    shares = rng.multinomial(total, rng.dirichlet(np.ones(4))) / total * 100
    change = float(rng.uniform(-0.9, 3))
    row = {
        "total": str(total), "failed": str(total - n), "n": str(n),
        "goodput_percent": printed(n / total * 100, digits()), "failed_ratio": printed(1 - n / total, digits()),
        "min_ms": printed(values.min(), digits()), "p25_ms": printed(np.percentile(values, 25), digits()),
        "median_ms": printed(np.percentile(values, 50), digits()),
        "p95_ms": printed(np.percentile(values, 95), digits()),
        "p99.9_ms": printed(np.percentile(values, 99.9), digits()), "max_ms": printed(values.max(), digits()),
        "mean_ms": printed(values.mean(), digits()), "std_ms": printed(values.std(ddof=ddof), digits()),
        "pause_s": printed(pause, digits()), "user_seconds": printed(total * (values.mean() / 1000 + pause), digits()),
        "elapsed_s": printed(elapsed, digits()), "throughput_per_s": printed(total / elapsed, digits()),
        "cost_eur": printed(cost, digits()), "cost_per_1000_eur": printed(1000 * cost / total, digits()),
        "node_seconds": printed(3 * elapsed, digits()), "price_per_node_second_eur": printed(cost / 3 / elapsed, 9),
        **{f"status_{400 + at}_percent": printed(share, digits()) for at, share in enumerate(shares)},
    }  # fmt: skip
    again = {
        **row,
        "run": "other",
        "throughput_per_s": "",
        "cost_eur": printed(cost * (1 + change), 6),
        "cost_per_1000_eur": "",
        "node_seconds": "",
        "cost_eur_change_percent": printed(change * 100, digits()),
    }
    return [{**row, "run": "one", "cost_eur": printed(cost, 6), "cost_eur_change_percent": ""}, again]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cut=st.booleans())
def test_right_tables_are_never_called_wrong(tmp_path_factory, seed, cut):
    rows = right_row(seed)
    found = look(tmp_path_factory.getbasetemp(), rows, name="right.csv", slack=2 if cut else 1)
    # the second row repeats the first on purpose, under another name
    assert [str(p) for p in found.problems if p.rule != "repeated"] == []
    assert found.checks > 20


BROKEN = {
    "goodput_percent": lambda row: {"goodput_percent": "12.3456"},
    "share": lambda row: {"failed": str(int(row["total"]) + 1)},
    "order": lambda row: {"p95_ms": printed(float(row["max_ms"]) * 1.5 + 9, 3)},
    "below": lambda row: {"median_ms": printed(float(row["min_ms"]) * 0.5 - 2, 3)},
    "mean": lambda row: {"mean_ms": printed(float(row["max_ms"]) + 2, 2)},
    "spread": lambda row: {"std_ms": printed(float(row["max_ms"]) * 2 + 4, 2)},
    "closed-loop": lambda row: {"user_seconds": printed(float(row["user_seconds"]) * 3 + 60, 2)},
    "rate": lambda row: {"throughput_per_s": printed(float(row["throughput_per_s"]) * 1.5 + 2, 3)},
    "per-1000": lambda row: {"cost_per_1000_eur": printed(float(row["cost_per_1000_eur"]) * 1.5 + 2, 3)},
    "shares": lambda row: {"status_400_percent": printed(float(row["status_400_percent"]) - 15, 2)},
}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), what=st.sampled_from(sorted(BROKEN)))
def test_a_changed_cell_is_found(tmp_path_factory, seed, what):
    row = right_row(seed, coarsest=3)[0]  # what is rounded to nothing hides everything
    changed = BROKEN[what](row)
    found = look(tmp_path_factory.getbasetemp(), [{**row, **changed}], name="changed.csv")
    assert any(set(changed) & set(p.columns) for p in found.problems), (what, row, changed)


# --- single rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "rule", "says"),
    [
        ({"total": "1000", "failed": "12", "goodput_percent": "99.9"}, "share", "1 − 12 ÷ 1000 = 98.8 %"),
        ({"total": "10", "failed": "3", "succeeded": "6"}, "parts", "3 + 6 = 9"),
        ({"total": "10", "failed": "11"}, "within-total", "11 of 10"),
        ({"goodput_percent": "100.4"}, "share-bounds", "no share can be"),
        ({"min_ms": "-3", "max_ms": "5"}, "negative", "below 0"),
        ({"p95_ms": "41", "max_ms": "39"}, "order", "p95 41 ms is above max 39 ms"),
        ({"dns.p95_ms": "41", "dns.max_s": "0.039"}, "order", "p95 41 ms is above max 0.039 s"),
        ({"mean_ms": "3", "median_ms": "9", "std_ms": "4"}, "mean-median", "5 apart"),
        ({"min_ms": "0", "max_ms": "10", "std_ms": "8.2"}, "spread", "allow 7.42462 at most"),
        ({"min_ms": "0", "max_ms": "10", "std_ms": "0.0", "n": "100"}, "spread", "of 100 values"),
        ({"users": "90", "duration_s": "300", "pause_s": "1.00", "mean_ms": "500", "total": "40000"}, "closed-loop",
         "90 × 300 s user-seconds ÷ (mean 500 ms + pause 1.00 s) = 17904.4 to 18096.4 requests"),
        ({"min_ms": "0.0", "max_ms": "10.0", "mean_ms": "5.5", "n": "2"}, "mean-of-n", "have one from 4.95 to 5.05"),
        ({"throughput_per_s": "50", "duration_s": "60", "total": "9000"}, "rate", "50 requests/s × 60 s"),
    ],
)  # fmt: skip
def test_what_each_rule_says(tmp_path, row, rule, says):
    found = look(tmp_path, [row])
    assert rules(found) == {rule}
    assert says in found.problems[0].message


def test_closed_loop_forgives_what_no_table_prints(tmp_path):
    """Ramps have steps and generators need time: 3 % fewer requests than the law says are no contradiction."""
    row = {"user_seconds": "90000", "pause_s": "0.25", "mean_ms": "23.7", "total": "318900"}
    assert look(tmp_path, [row]).problems == ()


def test_rounding_to_the_edge_is_no_contradiction(tmp_path):
    """99.95 % may be printed 99.9 or 100.0, and both are right."""
    for text in ("99.9", "100.0"):
        row = {"total": "2000", "failed": "1", "goodput_percent": text}
        assert look(tmp_path, [row]).problems == ()
    row = {"total": "1500", "failed": "1", "goodput_percent": "99.9"}  # 99.9333 is
    assert look(tmp_path, [row]).problems == ()
    cut = {"total": "10000", "failed": "1", "goodput_percent": "99.9"}  # 99.99 cut off, not rounded
    assert rules(look(tmp_path, [cut])) == {"share"}
    assert look(tmp_path, [cut], slack=2).problems == ()


def test_a_row_printed_again_in_another_table(tmp_path):
    users = [{"deployment": "gke", "total": "327921", "mean_ms": "23.74", "p95_ms": "61.2", "users": "100"}]
    devices = [{"deployment": "gke", "total": "327921", "mean_ms": "23.74", "p95_ms": "61.2", "users": "100"}]
    paths = [written(tmp_path, users, name="users.csv"), written(tmp_path, devices, name="devices.csv")]
    found = audit(paths)
    assert rules(found) == {"repeated"}
    assert found.problems[0].table == str(paths[1])
    assert "users.csv, line 2" in found.problems[0].message
    for rows in (users, devices):
        rows[0]["run"] = "linear-1"
    paths = [written(tmp_path, users, name="users.csv"), written(tmp_path, devices, name="devices.csv")]
    again = written(tmp_path, [{"p95_ms": "9", "max_ms": "10"}], name="any.csv")
    assert audit([*paths, again]).problems == ()


def test_many_rows_alike_are_told_once_each(tmp_path):
    row = {"total": "327921", "mean_ms": "23.74", "p95_ms": "61.2"}
    found = look(tmp_path, [{"level": str(number), **row} for number in range(2_000)])
    assert len(found.problems) == 1_999
    assert all("line 2 " in problem.message for problem in found.problems)


def test_a_table_that_is_given_twice_is_one(tmp_path):
    path = written(tmp_path, [{"total": "327921", "mean_ms": "23.74", "p95_ms": "61.2", "max_ms": "99"}])
    (tmp_path / "link").symlink_to(tmp_path)
    found = audit([path, path, tmp_path / "link" / "table.csv"])
    assert len(found.tables) == 1
    assert found.problems == ()


def test_rows_that_agree_in_little_are_not_called_one(tmp_path):
    rows = [
        {"level": "a", "total": "3000", "failed": "0", "goodput_percent": "100", "p95_ms": "12"},
        {"level": "b", "total": "3000", "failed": "0", "goodput_percent": "100", "p95_ms": "12"},
    ]
    assert look(tmp_path, rows).problems == ()


# --- tables that cannot be read -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no rows"),
        ("total,failed\n", "has no rows"),
        ("total,total\n1,2\n", "'total' twice"),
        ("total,\n1,2\n", "a column without a name"),
        ("total,failed\n1\n", "line 2 has 1 cells"),
        ("total,failed\n327,921,5\n", "quote a cell"),
        ("total,failed\nmany,5\n1,few\n", "line 3: failed: 'few' is not a number"),
        ("mean_ms,mean_s\n1,2\n", "one quantity in two columns: mean_ms and mean_s"),
        ("platform,latency\nknative,12\n", "nothing can be recomputed"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_place(tmp_path, text, says):
    path = tmp_path / "bad.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ForeignFileError) as refused:
        audit([path])
    assert says in refused.value.message
    assert str(path) in refused.value.message


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_other_signs_between_columns_are_named(tmp_path, sign):
    path = tmp_path / "t.csv"
    path.write_text(f"run{sign}total{sign}failed\na{sign}10{sign}11\n", "utf-8")
    with pytest.raises(ForeignFileError, match="line 1 parts its columns by") as refused:
        audit([path])
    assert repr(sign) in refused.value.message


def test_files_that_are_none(tmp_path):
    with pytest.raises(ForeignFileError, match="cannot be read"):
        audit([tmp_path / "absent.csv"])
    latin = tmp_path / "latin.csv"
    latin.write_bytes("größe,total\n1,2\n".encode("latin-1"))
    with pytest.raises(ForeignFileError, match="not UTF-8"):
        audit([latin])


def test_comments_and_misspelt_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("# Table 3\nrun,min_ms,max_ms,avg_ms\n\na,1,9,4.5\n# end\nb,1,10,4.7\n", "utf-8")
    found = audit([path])
    assert found.problems == ()
    assert found.tables[0].unread == ("avg_ms",)
    assert [row.line for row in found.tables[0].rows] == [4, 6]


# --- the command ----------------------------------------------------------------------------------------


def command(*arguments):
    from typer.testing import CliRunner

    from towtank.cli.main import build_app

    return CliRunner().invoke(build_app(["audit"]), ["audit", *map(str, arguments)])


def test_the_command_ends_with_the_code_that_says_so(tmp_path):
    right = written(tmp_path, [{"total": "10", "failed": "1", "goodput_percent": "90"}], name="right.csv")
    wrong = written(tmp_path, [{"total": "10", "failed": "1", "goodput_percent": "91"}], name="wrong.csv")
    fine = command(right)
    assert fine.exit_code == 0
    assert "nothing contradicts itself" in fine.output
    told = command(right, wrong)
    assert told.exit_code == 9
    assert "wrong.csv, line 2" in told.output
    assert "2 tables, 2 rows" in told.output
    as_json = command(wrong, "--json")
    assert as_json.exit_code == 9
    data = json.loads(as_json.output)
    assert data["problems"][0]["rule"] == "share"
    assert not any(isinstance(v, float) and math.isnan(v) for v in data["problems"][0].values())


@pytest.mark.parametrize("unknown", ["", ">0.05"])
def test_a_price_that_is_not_known_proves_nothing(tmp_path, unknown):
    by_use = {
        "total": "1000", "mean_ms": "100", "price_per_request_second_eur": "0.01", "price_per_request_eur": unknown,
        "cost_eur": "101", "cost_per_1000_eur": "101",
    }  # fmt: skip
    assert look(tmp_path, [by_use]).problems == ()
    assert rules(look(tmp_path, [{**by_use, "price_per_request_eur": "0.05"}])) == {"by-use"}
    nodes = {
        "total": "1000", "node_seconds": "100", "price_per_node_second_eur": "0.01", "fee_per_second_eur": unknown,
        "duration_s": "100", "cost_eur": "11", "cost_per_1000_eur": "11",
    }  # fmt: skip
    assert look(tmp_path, [nodes]).problems == ()
    assert rules(look(tmp_path, [{**nodes, "fee_per_second_eur": "0.05"}])) == {"reserved"}


def test_what_no_table_prints_is_refused_and_not_reckoned_with(tmp_path):
    huge = "1" * 36 + "e99"
    row = {"total": huge, "mean_ms": huge, "price_per_request_second_eur": huge, "cost_eur": "1"}
    with pytest.raises(ForeignFileError, match=r"line 2: total: .* is more than 1e\+30"):
        look(tmp_path, [row])
    with pytest.raises(ForeignFileError, match=r"line 2 has 140,0\d\d characters; at most 100,000"):
        look(tmp_path, [{"deployment": "a" * 140_000, "total": "10", "failed": "1", "goodput_percent": "90"}])
