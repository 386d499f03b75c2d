"""What leaves the advisor: reports and engine configuration.

The typed report and its formats import nothing heavy: plotly, matplotlib and typst load when their format is asked for.
"""

from advisor.report.build import build_report
from advisor.report.document import Report
from advisor.report.formats import FORMATS, render

__all__ = ["FORMATS", "Report", "build_report", "render"]
