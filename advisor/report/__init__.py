"""What leaves the advisor: reports and engine configuration.

Nothing is imported here: the command line uses single modules of this package where heavy libraries are missing.
"""

from __future__ import annotations

from advisor.report.build import build_report, scenario_settings
from advisor.report.document import Report
from advisor.report.evidence import applicable_errors, published_ids
from advisor.report.formats import FORMATS, MEDIA_TYPES, Format, render
from advisor.report.words import LIMITS

__all__ = [
    "FORMATS",
    "LIMITS",
    "MEDIA_TYPES",
    "Format",
    "Report",
    "applicable_errors",
    "build_report",
    "published_ids",
    "render",
    "scenario_settings",
]
