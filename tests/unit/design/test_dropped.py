"""What a profile leaves out of the file is said: levels that are gone, and other combinations by number."""

from __future__ import annotations

from towtank.design.dropped import NOT_RUN

NO_CLAIM = ("answer: {primary: [p95], baseline: a}\n", "")  # of what is left out nothing can be claimed
FACTORS = ("factors: {deployment: [a, b]}", "factors: {deployment: [a, b], users: [1, 2, 3]}")


def said(small, changes, profile="p"):
    plan = small(
        NO_CLAIM, FACTORS, ("repetitions: 3", f"repetitions: 3\nprofiles: {{p: {changes}}}"), profile=profile
    )
    return [note for note in plan.notes if note.startswith(NOT_RUN)]


def test_levels_of_which_nothing_is_left_are_named(small):
    assert said(small, "{exclude: [{deployment: b}]}") == [
        "not run in this profile: 3 of the file's 6 treatments (deployment b)"
    ]


def test_levels_that_were_replaced_are_named_too(small):
    assert said(small, "{factors: {users: [2, 7]}}") == [
        "not run in this profile: 4 of the file's 6 treatments (users 1, 3)"
    ]


def test_other_combinations_are_counted(small):
    assert said(small, "{factors: {users: [1, 2]}, exclude: [{deployment: b, users: 1}]}") == [
        "not run in this profile: 3 of the file's 6 treatments (users 3; 1 other combination)"
    ]


def test_nothing_is_said_where_nothing_is_left_out(small):
    assert said(small, "{repetitions: 2}") == []
    assert said(small, "{exclude: [{deployment: b}]}", profile=None) == []
