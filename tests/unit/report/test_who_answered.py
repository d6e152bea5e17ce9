"""The table of who answered what was refused."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from support.sample_analysis import sample_analysis
from towtank.analysis.who_answered import COLUMNS
from towtank.report import tables
from towtank.report.naming import Names


def shown(*rows):
    plain = sample_analysis()
    found = [(plain.treatments[0].treatment_id, *row) for row in rows]
    analysis = replace(plain, who_answered=pd.DataFrame(found, columns=list(COLUMNS)))
    return tables.who_answered(analysis, Names(plain))


def test_parts_stand_beside_what_the_engine_saw_and_what_is_nobodys():
    table = shown(("503", 1030, 18, 2, 4, 3, 1003, 0), ("504", 1, 1, None, None, 0, 0, 2))
    assert [column.title for column in table.columns[3:]] == [
        "Ingress", "Activator", "Queue-proxy", "Function", "Not attributed",
    ]  # fmt: skip
    first, second = table.rows
    assert [cell.text for cell in first[2:]] == ["1\u202f030", "18", "2", "4", "3", "1\u202f003"]
    assert [cell.text for cell in second[2:]] == ["1", "1", "–", "–", "0", "0"]
    assert second[4].note == "there is none, or it was not observed"
    assert second[-1].note.startswith("2 more were counted than the load engine saw")


def test_where_nothing_was_refused_there_is_no_table():
    assert shown() is None
