"""Reading a result folder: tolerant of what a crash leaves, plain about what is damaged."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from towtank.errors import NewerVersionError, ResultsError
from towtank.store.files import read_json
from towtank.store.kept_tables import first_line, inside
from towtank.store.layout import ResultsLayout, RunLayout, split_run_id
from towtank.store.run_folder import RunFolder
from towtank.store.run_record import SCHEMA_VERSION, RunRecord

if TYPE_CHECKING:  # takes long to import, and `towtank sql` needs none
    from towtank.design.plan import Plan


@dataclass(frozen=True)
class Damage:
    """A file that cannot be used; the rest of the folder can.

    Parameters
    ----------
    path : Path
    message : str
        What is wrong with it.
    """

    path: Path
    message: str

    def __str__(self) -> str:
        return self.message if str(self.path) in self.message else f"{self.path}: {self.message}"


@dataclass
class Results:
    """The result folder of one experiment, open for reading.

    Parameters
    ----------
    layout : ResultsLayout
    damage : list of Damage
        What could not be used so far, by name.
    """

    layout: ResultsLayout
    damage: list[Damage] = field(default_factory=list)
    _runs: list[RunFolder] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path | str) -> Results:
        """Open a result folder.

        Parameters
        ----------
        path : Path
            ``results/<experiment>``; `store.locate` finds it from an experiment file.

        Raises
        ------
        NewerVersionError
            Some of it was written by a newer Towtank.
        ResultsError
            The folder is none of ours.
        """
        root = Path(path).resolve()
        layout = ResultsLayout(root)
        if not root.is_dir():
            raise ResultsError(
                f"{path} is not a folder with results", hint="run the experiment first: towtank run FILE"
            )
        if not layout.plan.is_file():
            raise ResultsError(
                f"{path} is not a result folder: it has no {layout.plan.name}",
                hint="give the experiment file, or the folder results/<experiment> beside it",
            )
        for described in (layout.plan, layout.environment):
            if described.is_file():
                _refuse_newer(described, read_json(described))
        results = cls(layout)
        results.reload()
        return results

    def reload(self) -> None:
        """Read the folder's runs again: another process may be adding to them."""
        self.damage.clear()
        self._runs = []
        for layout in self.layout.run_folders():
            try:
                self._runs.append(_read_run(layout, self.layout.root))
            except NewerVersionError:
                raise
            except ResultsError as error:
                self.damage.append(Damage(layout.record, error.message))

    @property
    def path(self) -> Path:
        """The folder."""
        return self.layout.root

    @cached_property
    def plan(self) -> Plan:
        """What was to be done."""
        from towtank.design.plan import Plan  # noqa: PLC0415

        path = self.layout.plan
        try:
            return Plan.from_json(path.read_bytes())
        except OSError as error:
            raise ResultsError(f"{path} cannot be read: {error.strerror}") from error
        except NewerVersionError as error:
            raise NewerVersionError(f"{path}: {error.message}", hint=error.hint) from error
        except ResultsError as error:
            raise ResultsError(f"{path}: {error.message}", hint=error.hint) from error

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Host, versions, engine build."""
        return read_json(self.layout.environment)

    @cached_property
    def files(self) -> dict[str, str]:
        """Texts of the experiment file and of what it included, by name."""
        found = {}
        if self.layout.experiment.is_file():
            found[self.layout.experiment.name] = self.layout.experiment.read_text("utf-8", errors="replace")
        if self.layout.files.is_dir():
            included = self.plan.files  # feeds and bodies are kept there too, and may be large
            for path in sorted(p for p in self.layout.files.rglob("*") if p.is_file() and not p.is_symlink()):
                name = path.relative_to(self.layout.files).as_posix()
                if name in included:
                    found[name] = path.read_text("utf-8", errors="replace")
        return found

    def runs(
        self, state: Literal["complete", "running", "all"] = "complete", *, include_invalid: bool = True
    ) -> list[RunFolder]:
        """Runs in order of block, position and attempt.

        Parameters
        ----------
        state : {"complete", "running", "all"}
            A `running` run is under way, or was killed.
        include_invalid : bool
            With runs that the instrument spoiled.
        """
        chosen = [r for r in self._runs if state in ("all", r.record.state)]
        if not include_invalid:
            chosen = [
                r for r in chosen if r.record.verdicts is None or r.record.verdicts.instrument != "invalid"
            ]
        return sorted(chosen, key=lambda r: (r.record.block, r.record.position, r.record.attempt))

    def only(self, run: RunFolder) -> Results:
        """The same folder as if it held nothing but one attempt."""
        return Results(self.layout, [], [run])

    def attempts(self, planned_id: str) -> list[RunFolder]:
        """All attempts of a planned run, oldest first."""
        return [r for r in self.runs("all") if r.record.planned_id == planned_id]

    def next_attempt(self, planned_id: str) -> int:
        """Number of the next attempt; folders of killed and damaged attempts count."""
        split = (split_run_id(layout.run_id) for layout in self.layout.run_folders())
        return max((attempt for s in split if s and s[0] == planned_id for attempt in (s[1],)), default=0) + 1


def _read_run(layout: RunLayout, root: Path) -> RunFolder:
    inside(layout.path, root)
    inside(layout.record, layout.path)
    content = read_json(layout.record)
    _refuse_newer(layout.record, content)
    try:
        record = RunRecord.model_validate(content)
    except ValidationError as error:
        raise ResultsError(f"{layout.record} is damaged: {first_line(error)}") from error
    if record.run_id != layout.run_id:
        raise ResultsError(
            f"{layout.record} is damaged: it speaks of run {record.run_id!r}, its folder is {layout.run_id!r}"
        )
    return RunFolder(layout, record)


def _refuse_newer(path: Path, content: dict[str, Any]) -> None:
    version = content.get("schema_version", content.get("version", 1))
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerVersionError(
            f"{path} was written by a newer Towtank: schema_version {version}, this one reads up to {SCHEMA_VERSION}",
            hint="use the Towtank that wrote it, or a newer one",
        )
