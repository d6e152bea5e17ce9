"""What may be shown: secrets masked, terminals safe."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towtank.errors import PlatformError
from towtank.platforms import masking, output
from towtank.platforms.masking import MASK, Secrets


def test_values_are_replaced_longest_first() -> None:
    secrets = Secrets(["A", "B"], {"A": "pass", "B": "password"})
    assert secrets.mask("password pass") == f"{MASK} {MASK}"
    assert secrets.placeholders == {"env.A": "pass", "env.B": "password"}
    assert secrets.masked_placeholders == {"env.A": MASK, "env.B": MASK}


def test_short_values_are_not_searched() -> None:
    assert Secrets(["A"], {"A": "80"}).mask("port 8080") == "port 8080"
    assert Secrets(["A"], {"A": ""}).mask("text") == "text"


def test_missing_variables_are_named_all_at_once() -> None:
    with pytest.raises(PlatformError, match="not set in the environment: A, C"):
        Secrets(["A", "B", "C"], {"B": "x"})


@settings(deadline=None)
@given(
    before=st.binary(max_size=40), after=st.binary(max_size=40), value=st.text("abcde", min_size=4, max_size=9),
    chunk=st.integers(1, 7),
)  # fmt: skip
def test_a_file_is_masked_wherever_the_value_lies(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes, value: str, chunk: int
) -> None:
    path = tmp_path_factory.mktemp("mask") / "log"
    path.write_bytes(before + value.encode() + after)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masking, "_CHUNK_BYTES", chunk)
        Secrets(["A"], {"A": value}).mask_file(path)
    assert path.read_bytes() == (before + value.encode() + after).replace(value.encode(), MASK.encode())
    assert [p.name for p in path.parent.iterdir()] == ["log"]


def test_a_file_without_secrets_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("nothing")
    before = path.stat()
    Secrets(["A"], {"A": "secret"}).mask_file(path)
    assert path.stat().st_ino == before.st_ino
    Secrets(["A"], {"A": "secret"}).mask_file(tmp_path / "missing")


def test_tail_is_the_last_lines_without_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        b"".join(b"line %d\n" % i for i in range(50)) + b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x00\xffend"
    )
    found = output.tail(path)
    assert len(found) == 20
    assert found[0] == "line 31"
    assert found[-1] == "red �end"
    assert output.tail(path, lines=1) == found[-1:]
    assert output.tail(path, after=path.stat().st_size) == []
    assert output.tail(tmp_path / "missing") == []
    assert "it wrote nothing" in output.quoted(tmp_path / "missing")


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_nothing_that_a_terminal_obeys_gets_through(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    path = tmp_path_factory.mktemp("tail") / "log"
    path.write_bytes(raw)
    for line in output.tail(path):
        assert all(
            character.isprintable() or character.isspace() or ord(character) > 159 for character in line
        )
        assert "\x1b" not in line


def test_long_lines_and_files_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 10_000_000)
    (line,) = output.tail(path)
    assert len(line) == 400
    assert line.endswith("…")
