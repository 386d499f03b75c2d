"""Reports: one answer as a file to hand on, in five formats.

The PDF's and HTML's modules are imported when asked for: other formats work where their libraries are missing.
"""

from __future__ import annotations

from advisor.report.build import LIMITS, Report, applicable_errors, build_report, published_ids, scenario_settings
from advisor.report.formats import FORMATS, MEDIA_TYPES, Format, file_name, render

__all__ = [
    "FORMATS",
    "LIMITS",
    "MEDIA_TYPES",
    "Format",
    "Report",
    "applicable_errors",
    "build_report",
    "file_name",
    "published_ids",
    "render",
    "scenario_settings",
]
