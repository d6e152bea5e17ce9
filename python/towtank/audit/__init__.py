"""Published tables held against themselves: which cells cannot be right, with the arithmetic.

Nothing here reads results of Towtank. A printed number stands for every number that prints like it, so what is called
wrong is wrong however it was rounded. The form of the tables and the rules are in docs/audit.md.
"""

from towtank.audit.audit import Audit, audit
from towtank.audit.problem import Problem
from towtank.audit.table import Table, read_table

__all__ = ["Audit", "Problem", "Table", "audit", "read_table"]
