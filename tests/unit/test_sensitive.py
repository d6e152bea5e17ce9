"""Values of headers such as Authorization stay out of everything that is kept or shown, and files stay files."""

import pytest

from towtank.sensitive import MASK, mask_values, mask_yaml

FILE = """\
a: é # authorization: in a comment
x: &token "Bearer s3cr3t"
y: {headers: {Authorization: 's3cr3t', accept: json, Cookie: *token}}
z:
  authorization: &other plain s3cr3t # why
  X-Api-Key: |
    s3cr3t
    of two lines
  headers: {authorization: "Bearer {env.TOKEN}"}
profiles: {big: {w.headers.authorization: s3cr3t}}
last: authorization
"""


def test_a_file_is_masked_by_place_and_else_the_same():
    masked = mask_yaml(FILE)
    assert "s3cr3t" not in masked
    assert masked.splitlines() == [
        "a: é # authorization: in a comment",
        f'x: &token "{MASK}"',
        f'y: {{headers: {{Authorization: "{MASK}", accept: json, Cookie: *token}}}}',
        "z:",
        f'  authorization: &other "{MASK}" # why',
        f'  X-Api-Key: "{MASK}"',
        '  headers: {authorization: "Bearer {env.TOKEN}"}',
        f'profiles: {{big: {{w.headers.authorization: "{MASK}"}}}}',
        "last: authorization",
    ]
    assert mask_yaml(masked) == masked


@pytest.mark.parametrize(
    "text", ["", "a: 1\n", "{authorization", "- *authorization\n", "authorization: '{env.X}'\nCookie:\n"]
)
def test_what_has_nothing_to_hide_or_is_no_yaml_stays(text):
    assert mask_yaml(text) == text


def test_data_are_masked_below_the_name():
    data = {
        "headers": {"AUTHORIZATION": "s", "a": "b"},
        "steps": [{"cookie": "x"}],
        "n": 1,
        "authorization": None,
    }
    assert mask_values(data) == {
        "headers": {"AUTHORIZATION": MASK, "a": "b"}, "steps": [{"cookie": MASK}], "n": 1, "authorization": None,
    }  # fmt: skip
    assert mask_values({"authorization": "Bearer {env.T}"}) == {"authorization": "Bearer {env.T}"}
    assert mask_values({"authorization": "s3cr3t {env.T}"}) == {"authorization": MASK}
