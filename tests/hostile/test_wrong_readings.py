"""No misread file is refitted in silence to predictions worse than the shipped ones, and no right
one is refused.

Thresholds were chosen on the kinds of `half` 0; the whole corpus is judged by the thorough test, a
sample of the kinds of `half` 1 in every run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.observations import LENGTH, NAMES, joined, log_predicted
from advisor.measured.points import refit_points
from advisor.measured.refit import refit_chosen, select_points
from advisor.measured.refit_result import RefitResult
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.hostile.right_files import is_real, published_files, right_files
from tests.hostile.wrong_readings import KINDS, MACHINES, File, half, wrong_files

WORSE = 0.01
CLEARLY_WORSE = 0.05
"""Rise of the mean error that counts as worse than the shipped constants, and as clearly worse.
[-]"""
MAX_SHARE = 0.05
"""Share of wrong files that may be written in silence and be worse. [-]"""
NEAR = 0.15
"""Mean error of the shipped constants on a published file below which they predict it. [-]"""
FALSE_ALARMS = 2
"""Published files near the shipped predictions that are asked about all the same, as measured.
[-]"""
SAMPLE = (
    "a third of the batch running: qwen3-30b on an H200",
    "twice K: qwen3-30b on an H200",
    "accepted length of an easier text: speedups of gpt-oss-120b on a B200",
    "baseline of another engine: qwen3-coder on a B200, published",
)


@dataclass(frozen=True)
class Verdict:
    """What is said of a file on its way into a refit, and how much worse the refit makes
    predictions. [-]"""

    said: tuple[str, ...]
    worse: float


def verdict(file: File) -> Verdict:
    """Verdict on a file: it is read and refitted, and the refit judged on the rows as they were
    run."""
    try:
        result = read_upload("mine.csv", file.data).result
        answer = refit_chosen(*select_points(result.frame))
    except AdvisorError as error:
        return Verdict((str(error),), 0.0)
    theta = np.array(
        [
            np.log({one.name: one.factor for one in answer.parameters}.get(name, 1.0))
            for name in NAMES
        ]
    )
    theta[LENGTH] = 0.0  # a borrowed length stays the scenario's own
    truth = refit_points(file.truth)[0]
    observed = joined(point.observations for point in truth)
    before = np.abs(np.expm1(log_predicted(observed, 0.0 * theta) - observed.log_measured))
    after = np.abs(np.expm1(log_predicted(observed, theta) - observed.log_measured))
    rise = max(
        float((after - before)[observed.quantity == quantity].mean())
        for quantity in np.unique(observed.quantity)
    )
    refused = tuple(map(str, result.rejects["reason"].unique()))
    return Verdict((*refused, *reading_texts(result.warnings), *answer.reasons_against), rise)


def test_the_corpus_has_140_wrong_files_of_47_kinds():
    assert len(KINDS) + len(MACHINES) >= 47
    files = wrong_files()
    assert len(files) >= 140
    assert {half(name) for name in files} == {0, 1}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_misread_file_is_not_written_in_silence(name):
    assert half(name) == 1
    assert verdict(wrong_files()[name]).said


@pytest.fixture(scope="module")
def judged() -> dict[str, Verdict]:
    """Verdicts on the half of the kinds that no threshold was chosen on."""
    return {name: verdict(file) for name, file in wrong_files().items() if half(name) == 1}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "least",
    [
        CLEARLY_WORSE,
        pytest.param(
            WORSE, marks=pytest.mark.xfail(raises=AssertionError, reason="8 of 156, for 7.8")
        ),
    ],
)
def test_few_wrong_files_make_predictions_worse_in_silence(judged, least):
    silent = {name: one.worse for name, one in judged.items() if not one.said}
    worse = {name: rise for name, rise in silent.items() if rise > least}
    assert len(worse) <= MAX_SHARE * len(judged), (len(judged), len(silent), worse)


def refit_of(file: File) -> RefitResult:
    return refit_chosen(*select_points(read_upload("mine.csv", file.data).result.frame))


def test_there_are_20_right_files_ten_of_them_real():
    files = right_files()
    assert (len(files), sum(map(is_real, files))) == (20, 10)


@pytest.mark.parametrize("name", sorted(name for name in right_files() if not is_real(name)))
def test_a_constructed_right_file_is_read_whole_and_not_asked_about(name):
    file = right_files()[name]
    result = read_upload("mine.csv", file.data).result
    assert result.rows_refused == 0
    assert result.rows_kept + result.rows_repeated >= len(file.truth) // 2, "a wide row holds two"
    assert refit_of(file).questions == ()


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(filter(is_real, right_files())))
def test_a_real_file_is_not_refused(name):
    file = right_files()[name]
    result = read_upload("mine.csv", file.data).result
    assert result.rows_refused == 0
    assert refit_of(file).own_errors.after.n >= 3


@pytest.mark.thorough
def test_real_files_that_the_shipped_constants_predict_are_seldom_asked_about():
    near = 0
    asked = {}
    for name, file in published_files().items():
        try:
            answer = refit_of(file)
        except AdvisorError:
            continue  # no row of it can be predicted
        if answer.own_errors.after.n >= 8 and answer.own_errors.before.mape < NEAR:
            near += 1
            asked |= {name: answer.questions} if answer.questions else {}
    print(f"false alarms on {near} real files: {asked}")
    assert near >= 14
    assert len(asked) <= FALSE_ALARMS, asked
