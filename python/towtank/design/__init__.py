"""From an experiment file to a plan: read, validate, expand factors, order the runs. Executes nothing."""

from towtank.design.answer import Power, contrasts, power
from towtank.design.digest import difference
from towtank.design.forecast import Forecast, forecast
from towtank.design.loading import extend, load_plan, read_draft
from towtank.design.locate import locate
from towtank.design.plan import Plan, PlannedRun, Treatment
from towtank.design.problems import Problem
from towtank.design.schema import json_schema

__all__ = [
    "Forecast",
    "Plan",
    "PlannedRun",
    "Power",
    "Problem",
    "Treatment",
    "contrasts",
    "difference",
    "extend",
    "forecast",
    "json_schema",
    "load_plan",
    "locate",
    "power",
    "read_draft",
]
