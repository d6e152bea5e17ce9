"""Reports in other languages: a catalogue of messages each, and the whole report put into it.

Sentences are written in English where they arise, also by runs that are long over: `run.json` keeps them. A catalogue
(gettext's PO format) has the translation of each message, with `{name}` where a value stood; a sentence is recognised
by the message that it was made from. One more language is one more file, `python tools/messages.py` says what it lacks.
"""

from __future__ import annotations

from towtank.report.language.catalogue import ENGLISH, Catalogue, catalogue, languages
from towtank.report.language.translated import translated

__all__ = ["ENGLISH", "Catalogue", "catalogue", "languages", "translated"]
