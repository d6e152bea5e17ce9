"""Results in the formats of other tools: HdrHistogram's percentile table, k6's summary, JUnit's test cases.

Each is text made of stored count tables or of the analysis; `write` puts them into files.
"""

from towtank.report.interchange.files import write_hgrm, write_junit, write_k6_summaries

__all__ = ["write_hgrm", "write_junit", "write_k6_summaries"]
