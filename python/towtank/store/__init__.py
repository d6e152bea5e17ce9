"""Result folders: writing one run at a time, reading them years later, exact count tables, SQL, exports.

Everything that an experiment leaves is below ``results/<experiment>/`` (docs/formats.md, 4). `RunWriter` makes a run's
folder and completes it; `Results` reads a folder, whole or damaged; `Database` answers SQL over all runs, locked down.
"""

from towtank.store.database import Database, Rows, out_of_memory
from towtank.store.layout import ResultsLayout, RunLayout
from towtank.store.locating import locate
from towtank.store.results import Damage, Results
from towtank.store.run_folder import RunFolder
from towtank.store.run_record import RunRecord
from towtank.store.writer import RunWriter, create_results, write_plan

__all__ = [
    "Damage",
    "Database",
    "Results",
    "ResultsLayout",
    "Rows",
    "RunFolder",
    "RunLayout",
    "RunRecord",
    "RunWriter",
    "create_results",
    "locate",
    "out_of_memory",
    "write_plan",
]
