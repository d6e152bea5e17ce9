"""Readers of what other load generators write: each turns a file into one row a request, or refuses it.

Nothing in a file is executed or filled in; what its format does not know stays null. `campaign.importing` makes runs
of the rows.
"""

from towtank.load.importers.base import ROWS, Note, Reader
from towtank.load.importers.labels import Labelled, label_files
from towtank.load.importers.registry import FORMATS, open_file

__all__ = ["FORMATS", "ROWS", "Labelled", "Note", "Reader", "label_files", "open_file"]
