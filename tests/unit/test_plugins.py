"""Plug-ins of other distributions: found by entry points, refused in words when they are not what they should be."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from towtank.errors import PlatformError
from towtank.fields import Model
from towtank.platforms.registry import PlatformKind
from towtank.plugins import Registry

GROUP = "towtank.test"
OWN = PlatformKind(Model, "builtins:dict", "ours")
FOREIGN = PlatformKind(Model, "builtins:list", "theirs")
NOT_A_KIND = object()


@pytest.fixture
def registry(monkeypatch):
    points = [EntryPoint(name, f"{__name__}:{value}", GROUP) for name, value in
              (("theirs", "FOREIGN"), ("odd", "NOT_A_KIND"), ("gone", "NOTHING"), ("own", "FOREIGN"))]  # fmt: skip
    monkeypatch.setattr("towtank.plugins.entry_points", lambda group: points if group == GROUP else [])
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.attr])
    return Registry("platform", table={"own": OWN}, kind=PlatformKind, group=GROUP, error=PlatformError)


def test_our_own_come_first_and_cannot_be_replaced(registry):
    assert registry.names() == ("own", "gone", "odd", "theirs")
    assert registry.kind("own") is OWN
    assert registry.create("theirs") == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("oun", "there is no platform 'oun'; known are own, gone, odd, theirs"), ("odd", "must be a PlatformKind"),
     ("gone", "cannot be loaded")],
)  # fmt: skip
def test_what_cannot_be_had_is_said(registry, name, words):
    with pytest.raises(PlatformError, match=words):
        registry.create(name)


def test_an_implementation_that_is_missing_is_said():
    broken = PlatformKind(Model, "no_such_module:Platform", "broken")
    registry = Registry("platform", table={"x": broken}, kind=PlatformKind, group=GROUP, error=PlatformError)
    with pytest.raises(PlatformError, match="cannot be loaded from 'no_such_module:Platform'"):
        registry.create("x")
