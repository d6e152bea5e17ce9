"""Creating several things elsewhere as one: what was created before a failure is removed again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from towtank.errors import PlatformError


@contextlib.contextmanager
def undone_on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Undo what the block did when it fails, for whatever reason.

    Parameters
    ----------
    undo : callable
        May raise a PlatformError; both failures are then told as one.

    Raises
    ------
    PlatformError
        The block's own, with what could not be undone.
    """
    try:
        yield
    except BaseException as error:
        try:
            undo()
        except PlatformError as failed:
            if isinstance(error, PlatformError):
                left = f"what was created before could not be removed: {failed.message}"
                raise PlatformError(
                    f"{error.message}; {left}", hint="mend that, then call `towtank clean`"
                ) from error
        raise
