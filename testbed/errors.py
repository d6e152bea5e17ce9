"""What goes wrong with the testbed, by what the caller can do about it."""

from __future__ import annotations


class TestbedError(Exception):
    """Base of all errors that the testbed raises on purpose."""

    __test__ = False  # pytest: not a test class


class NotPossibleError(TestbedError):
    """This machine lacks something that the testbed needs: rights, a kernel feature, a program."""


class InTheWayError(TestbedError):
    """Something that is not the testbed's own stands where it would go; it is named and left alone."""


class BuildError(TestbedError):
    """A program could not be built or an image not be packed."""


class NotReadyError(TestbedError):
    """A component ended or did not become ready in time; its last log lines are in the message."""
