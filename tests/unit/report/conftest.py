"""Models and pages are built once for all tests of the report: building one takes seconds."""

import pytest

from support.sample_analysis import hostile_analysis, sample_analysis
from towtank import report


@pytest.fixture(scope="session")
def model():
    return report.build(sample_analysis())


@pytest.fixture(scope="session")
def hostile():
    return report.build(hostile_analysis())


@pytest.fixture(scope="session")
def page(model):
    return report.html.render(model)


@pytest.fixture(scope="session")
def hostile_page(hostile):
    return report.html.render(hostile)
