"""Every table and figure by itself, in the forms that papers are made of, with an index of what each file is."""

from towtank.report.paper.folder import PAGE_PX, Paper, write_paper

__all__ = ["PAGE_PX", "Paper", "write_paper"]
