"""`towtank.open(path)`: the results of one experiment as tables and figures."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from towtank import report
from towtank.analysis import analyse
from towtank.analysis.kept_runs import kept_runs
from towtank.analysis.model import Comparison, Estimate, ExperimentAnalysis, RunSummary, TreatmentSummary
from towtank.analysis.selection import counting_attempts
from towtank.errors import ResultsError
from towtank.notebook.drawing import Drawing
from towtank.report.model import ReportModel
from towtank.report.text import listed
from towtank.report.values import known
from towtank.spelling import nearest_name
from towtank.store import Database, Results, locate


def open_results(path: Path | str) -> Opened:
    """Open the results of an experiment.

    Parameters
    ----------
    path : Path
        An experiment file, or a result folder (``results/<experiment>``).

    Returns
    -------
    Opened

    Raises
    ------
    ResultsError
        There are no results at that place.

    Examples
    --------
    >>> e = towtank.open("studies/quickstart/results/quickstart")
    >>> e.summary("p95", "goodput")
    >>> e.compare("p95")
    >>> e.figure("ecdf")
    """
    return Opened(Results.open(locate(Path(path))))


class Opened:
    """The results of one experiment.

    Tables are pandas dataframes with a row for each thing, in the units of `unit`: seconds, bytes, shares from 0 to 1.
    What cannot be said is missing, and `reason` says why. Runs are read when the first table or figure is asked for;
    `reload` looks for new ones.

    Parameters
    ----------
    results : Results
    """

    def __init__(self, results: Results) -> None:
        self.results = results

    @cached_property
    def analysis(self) -> ExperimentAnalysis:
        """Everything that the analysis found, as plain data."""
        return analyse(self.results, derived=kept_runs(self.results))

    @cached_property
    def report(self) -> ReportModel:
        """The report, with all its tables and figures."""
        return report.build(self.analysis)

    def reload(self) -> Opened:
        """Look at the folder again: runs that were added since are read, the others are not."""
        self.results.reload()
        for name in ("analysis", "report"):
            self.__dict__.pop(name, None)
        return self

    # --- tables ----------------------------------------------------------------------------------------------

    def summary(self, *variables: str) -> pd.DataFrame:
        """Each treatment's mean over its runs, with its interval.

        Parameters
        ----------
        *variables : str
            Response variables; all that were measured when none is named.

        Returns
        -------
        DataFrame
            treatment, a column for each factor, variable, unit, mean, low, high, confidence, n (runs), above (the mean
            is a lower bound: some run's value lies among its failures), method, reason.

        Raises
        ------
        ResultsError
            A variable was not measured; the message says which were.
        """
        wanted = self._known("variable", variables, self._variables())
        return pd.DataFrame(
            [
                self._estimated(treatment, treatment.estimates[name])
                for name in wanted
                for treatment in self.analysis.treatments
                if name in treatment.estimates
            ]
        )

    def runs(self, *variables: str) -> pd.DataFrame:
        """Every run with its values.

        Parameters
        ----------
        *variables : str
            As of `summary`.

        Returns
        -------
        DataFrame
            run, treatment, a column for each factor, block, attempt, instrument, system, counts (it enters the numbers
            of its treatment), and a column for each variable; missing where nothing can be said, infinite where the
            value lies among the failures. A variable that is called like another column has an underscore behind it.
        """
        wanted = self._known("variable", variables, self._variables())
        counting = counting_attempts([run.record for run in self.results.runs("all")])
        return pd.DataFrame([self._run(run, wanted, counting) for run in self.analysis.runs])

    def compare(self, *variables: str) -> pd.DataFrame:
        """Treatments against their baseline: what is claimed first, then what was only looked at.

        Parameters
        ----------
        *variables : str
            Response variables; all that were compared when none is named.

        Returns
        -------
        DataFrame
            variable, treatment, baseline, verdict (missing where nothing was claimed), scale (`ratio`: treatment ÷
            baseline, `difference`: treatment − baseline), estimate, low, high, confidence, n (blocks or runs), p_value,
            p_adjusted, method, reason, sentence.

        Raises
        ------
        ResultsError
            A variable was not compared; the message says which were.
        """
        found = self.analysis.comparisons
        wanted = self._known("comparison of", variables, dict.fromkeys(c.variable for c in found))
        return pd.DataFrame([self._compared(c) for name in wanted for c in found if c.variable == name])

    def findings(self) -> pd.DataFrame:
        """What a reader should know: severity, name, message, advice, runs."""
        columns = ["severity", "name", "message", "advice", "runs"]
        return pd.DataFrame(
            [{name: getattr(finding, name) for name in columns} for finding in self.analysis.findings],
            columns=columns,
        )

    def sql(self, query: str) -> pd.DataFrame:
        """Answer a reading query over all runs; `towtank sql` has the same views.

        Raises
        ------
        QueryError
            The SQL is wrong, or asks for more than reading results.
        """
        with Database(self.results) as database:
            frame: pd.DataFrame = database.query(query).table().to_pandas()
        return frame

    # --- figures ---------------------------------------------------------------------------------------------

    @property
    def figures(self) -> pd.DataFrame:
        """Names and titles of the figures that these results have."""
        return pd.DataFrame(
            [{"name": figure.id, "title": figure.title} for figure in self.report.figures],
            columns=["name", "title"],
        )

    def figure(self, name: str) -> Drawing:
        """One figure of the report.

        Parameters
        ----------
        name : str
            One of `figures`.

        Raises
        ------
        ResultsError
            These results have no such figure; the message says which they have.
        """
        drawn = {figure.id: figure for figure in self.report.figures}
        self._known("figure", (name,), drawn)
        return Drawing(drawn[name])

    # --- how it shows itself -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"{self.report.question}\n{self.report.headline}"

    def _repr_html_(self) -> str:
        chips = " · ".join(html.escape(chip.text) for chip in self.report.chips)
        lines = (f"<strong>{html.escape(self.report.question)}</strong>", html.escape(self.report.headline))
        return "".join(f"<p>{line}</p>" for line in (*lines, chips))

    # --- rows ------------------------------------------------------------------------------------------------

    def _variables(self) -> dict[str, None]:
        return dict.fromkeys(name for treatment in self.analysis.treatments for name in treatment.estimates)

    def _known(self, what: str, asked: Iterable[str], there: Mapping[str, object]) -> tuple[str, ...]:
        """What was asked for, or everything; refuses what is not there."""
        chosen = tuple(asked) or tuple(there)
        for name in chosen:
            if name not in there:
                near = nearest_name(str(name), there)
                raise ResultsError(
                    f"{self.results.path} has no {what} {name!r}; there is {listed(tuple(there), most=60) or 'none'}",
                    hint=f"did you mean {near!r}?" if near else _HINTS[what],
                )
        return chosen

    def _factors(self, treatment_id: str) -> dict[str, Any]:
        """Levels of a treatment; a factor that is called like a column of ours has an underscore behind it."""
        levels = next((t.levels for t in self.analysis.treatments if t.treatment_id == treatment_id), {})
        return {f"{name}_" if name in _OURS else name: level for name, level in levels.items()}

    def _unit(self, variable: str) -> str:
        return (self.analysis.own.get(variable) or known(variable)).unit

    def _estimated(self, treatment: TreatmentSummary, found: Estimate) -> dict[str, Any]:
        return {
            "treatment": treatment.treatment_id,
            **self._factors(treatment.treatment_id),
            "variable": found.variable,
            "unit": self._unit(found.variable),
            **{name: getattr(found, name) for name in _OF_ESTIMATE},
        }

    def _run(self, run: RunSummary, variables: Iterable[str], counting: Collection[str]) -> dict[str, Any]:
        row: dict[str, Any] = {
            "run": run.run_id,
            "treatment": run.treatment_id,
            **self._factors(run.treatment_id),
            **{name: getattr(run, name) for name in ("block", "attempt", "instrument", "system")},
            "counts": run.run_id in counting,
        }
        for name in variables:
            value = run.values.get(name)
            column = name
            while column in row:
                column += "_"
            row[column] = None if value is None else float("inf") if value.above else value.value
        return row

    def _compared(self, found: Comparison) -> dict[str, Any]:
        return {
            "variable": found.variable,
            "treatment": found.treatment_id,
            "baseline": found.baseline_id,
            "verdict": found.verdict,
            "scale": "ratio" if found.scale == "log" else "difference",
            **{name: getattr(found, name) for name in _OF_COMPARISON},
        }


_OF_ESTIMATE = ("mean", "low", "high", "confidence", "n", "above", "method", "reason")
_OF_COMPARISON = (
    "estimate", "low", "high", "confidence", "n", "p_value", "p_adjusted", "method", "reason", "sentence",
)  # fmt: skip
_OURS = frozenset({
    "run", "treatment", "variable", "unit", "block", "attempt", "instrument", "system", "counts", *_OF_ESTIMATE,
})  # fmt: skip
_HINTS = {
    "variable": "name others in the experiment file: answer.primary, or answer.variables with SQL",
    "comparison of": "what is compared follows from `answer` and from what was measured in at least two treatments",
    "figure": "`figures` lists them; a figure is there when the results have something to show in it",
}
