"""A refit's gate on files with a hidden truth: right ones are written, harmful ones are not.

Thresholds were chosen on the forms and kinds of `half` 0; those of `half` 1 judge.
"""

from __future__ import annotations

from tests.hostile.refit_corpus import (
    DEPLOYMENTS,
    FORMS,
    KINDS,
    half,
    harmful_files,
    right_files,
)


def test_the_corpus_has_its_forms_kinds_and_sizes():
    assert len(FORMS) >= 12
    assert len(KINDS) >= 20
    assert len(DEPLOYMENTS) >= 3
    worlds = [file.truth for file in (*right_files(), *harmful_files())]
    assert all(8 <= len(one.batches) * len(one.drafts) <= 64 for one in worlds)
    assert 0.25 <= sum(bool(one.form) for one in worlds) / len(worlds) <= 0.4
    assert {half(name) for name in FORMS} == {half(name) for name in KINDS} == {0, 1}


def test_the_corpus_is_the_same_each_time():
    first = right_files()[0]
    right_files.cache_clear()
    assert right_files()[0].data == first.data
