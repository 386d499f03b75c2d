"""Sentences with a value without drafts and one with them: what is read, and what is not for lack
of certainty."""

from __future__ import annotations

import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.readers.prose import complaint_of, pairs_of, unread_text
from advisor.prediction import AdvisorError
from tests.golden.said import Said, lines_with

WENT = "TPOT went from 18 ms to 24 ms with MTP at concurrency 64"
SAID = (
    "after I switched MTP on (vLLM, DeepSeek-R1 on 8x H200, K = 1): TPOT went from 18 ms to 24 ms "
    "at concurrency 64."
)


@pytest.mark.parametrize(
    ("text", "values", "metric"),
    [
        (WENT, ("18", "24"), "tpot_ms"),
        ("1,900 tok/s without, 1,500 with", ("1900", "1500"), "any_tok_per_s"),
        ("with MTP 1500 tok/s, without 1900 tok/s", ("1900", "1500"), "any_tok_per_s"),
        ("without MTP: 18 ms TPOT, with MTP: 0.024 s", ("18", "24"), "tpot_ms"),
        (
            "DeepSeek-V3 8 x H200: TPOT 27 ms without, 31 ms with MTP K=3 at batch 64",
            ("27", "31"),
            "tpot_ms",
        ),
        ("baseline 18ms vs 24ms with EAGLE-3", ("18", "24"), None),
        (
            "With MTP (K=1) on: 1,450 tokens/s instead of 1,900 at 64 requests",
            ("1900", "1450"),
            "any_tok_per_s",
        ),
        (
            "I turned MTP on and it got slower: 1,450 tokens/s instead of 1,900.",
            ("1900", "1450"),
            "any_tok_per_s",
        ),
        (
            "After we enabled MTP it fell to 1,450 tok/s from 1,900",
            ("1900", "1450"),
            "any_tok_per_s",
        ),
        (
            "Since MTP is on, at 96 concurrent requests a token takes 41 ms. Before it was 27 ms.",
            ("27", "41"),
            "tpot_ms",
        ),
        (
            "On 8 H200. With MTP on, 128 users: 61 ms a token. With it off 52 ms.",
            ("52", "61"),
            "tpot_ms",
        ),
        (
            "TPOT at 64 users is 38 ms since we turned on MTP (K=3), it was 29 ms.",
            ("29", "38"),
            "tpot_ms",
        ),
        (
            "At 64 requests in parallel TPOT is 39 ms now. Without MTP it was 33 ms.",
            ("33", "39"),
            "tpot_ms",
        ),
        (
            (
                "we turned on EAGLE3 (vLLM, 2x H100) and throughput dropped, 4,300 tok/s before "
                "and 3,350 tok/s now."
            ),
            ("4300", "3350"),
            "any_tok_per_s",
        ),
        (
            "With EAGLE-3 we get 1500 tok/s. Baseline: 1900 tok/s.",
            ("1900", "1500"),
            "any_tok_per_s",
        ),
        (
            "2210 tok/s without, with MTP at 64 requests 1980 tok/s",
            ("2210", "1980"),
            "any_tok_per_s",
        ),
        ("1,450 tok/s with MTP instead of 1,900 without", ("1900", "1450"), "any_tok_per_s"),
        ("After turning MTP on TPOT is 24 ms, up from 18 ms", ("18", "24"), "tpot_ms"),
        (
            "It dropped from 1.9k to 1.5k tok/s per user when we turned on MTP.",
            ("1900", "1500"),
            "output_tok_per_s_per_user",
        ),
    ],
)
def test_a_pair_is_read_with_its_sides_and_what_it_counts(
    text: str, values: tuple[str, str], metric: str | None
) -> None:
    ((found),) = pairs_of(text)
    assert (found.values, found.metric) == (values, metric)


@pytest.mark.parametrize(
    "text",
    [
        "We got slower after switching on MTP with K = 3, at batch 64, on 8 GPUs since 10:15.",
        "Latency went from 18 ms to 24 ms after we upgraded the driver",
        "Latency rose from 18 ms to 24 ms after the driver update, MTP was on the whole time",
        "TTFT went from 200 ms to 350 ms with MTP at concurrency 64",
        "p99 TPOT went from 18 ms to 24 ms with MTP",
        "TPOT SLO from 20 ms to 30 ms with MTP",
        "TPOT went from 24 ms to 18 ms after I turned MTP off",
        "24 ms instead of 18 ms after I turned MTP off",
        "24 ms instead of 18 ms since the driver update",
        "TPOT went from 18 ms to 1500 tok/s with MTP",
        "18 ms without prefix caching, 24 ms with prefix caching",
        "18 ms and 24 ms with and without MTP",
        "18,5 ms without MTP, 24,1 ms with MTP",
        "18-24 ms with MTP, 500 W without",
        "64 users with MTP, 18 ms without",
        "TPOT was 18 ms before the driver update. Now it is 24 ms, MTP was on the whole time.",
        "With MTP: 41 ms before the upgrade. Without it TTFT is 300 ms.",
        "Before the upgrade, with MTP: 41 ms. After: 27 ms.",
        "18 ms without MTP, 24 ms with MTP. " * 400,
    ],
)
def test_numbers_that_may_be_anything_else_are_no_pair(text: str) -> None:
    assert not pairs_of(text)


def test_settings_are_read_where_the_text_states_one_value() -> None:
    (row,) = read_upload("note", SAID.encode()).result.frame.to_dict("records")
    stated = (
        "model_id",
        "hardware_id",
        "gpu_count",
        "engine",
        "drafter",
        "draft_tokens_k",
        "batch_size",
        "speedup",
    )
    assert [row[name] for name in stated] == [
        "deepseek-v3",
        "h200-sxm",
        8,
        "vllm",
        "mtp",
        1,
        64.0,
        0.75,
    ]
    read = read_upload(
        "note", WENT.replace("64", "64, and at concurrency 8 as well").encode()
    ).result
    assert read.frame["batch_size"].isna().all()
    assert {"batch_size", "draft_tokens_k", "model_id"} <= {
        item.name for item in read.missing if item.needed
    }
    launched = (
        "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --cuda-graph-max-bs "
        "16\n"
    ) + WENT
    assert read_upload("note", launched.encode()).result.frame["batch_size"].tolist() == [64], (
        "no option's value"
    )


def test_several_pairs_need_their_own_concurrency() -> None:
    told = (
        "At concurrency 8: 62 tok/s without, 98 with.\nAt concurrency 64: 1900 tok/s without, "
        "1500 with."
    )
    assert read_upload("note", told.encode()).result.frame["batch_size"].tolist() == [8, 64]
    with pytest.raises(AdvisorError, match="several pairs of values"):
        read_upload(
            "note",
            told.replace("concurrency 64", "night").replace("concurrency 8", "noon").encode(),
        )


@pytest.mark.parametrize("about", ["about 128", "~128", "size of around 128", "= 128"])
def test_a_batch_is_read_that_is_only_about(about: str) -> None:
    assert (complaint_of(f"Slower after I switched MTP on. Batch {about}.") or {}).get(
        "batch_size"
    ) == "128"
    assert pairs_of("1,950 tokens/s without, 1,610 with MTP, 64 requests at once")[0].batch == "64"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("on two H100s, accepted length around 2.1", ("h100-sxm", "2", "2.1")),
        ("on 2xH100 SXM, we accept about 2.1 tokens a step", ("h100-sxm", "2", "2.1")),
        ("on a single B200, accept length: 2", ("b200-sxm", "1", "2")),
        ("on four NVIDIA H200 GPUs", ("h200-sxm", "4", None)),
    ],
)
def test_a_server_and_its_length_are_read_as_people_say_them(
    text: str, read: tuple[str | None, ...]
) -> None:
    told = complaint_of(f"Slower since we turned EAGLE-3 on, {text}.") or {}
    assert tuple(map(told.get, ("hardware_id", "gpu_count", "accepted_length"))) == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "acceptance rate about 45%, K = 3",
            (
                "Not read: acceptance rate about 45%. Say the accepted length; it is 1 + 0.45 x 3 "
                "= 2.35"
            ),
        ),
        (
            "the accept rate was .6",
            "it is 1 + 0.6 K tokens if the rate is of all drafted tokens, as in vLLM's log.",
        ),
        ("accepted length 2.4", ""),
    ],
)
def test_an_acceptance_rate_is_not_dropped_without_a_word(text: str, said: str) -> None:
    assert said in unread_text(text)
    assert bool(said) == bool(unread_text(text))


def test_every_value_that_states_its_k_is_read_and_what_is_left_out_is_said(said: Said) -> None:
    for text in (
        b"2210 tok/s without, 2290 with K=1, 1980 with K=3",
        b"K=0: 2210 tok/s, K=1: 2290 and K=3: 1980",
    ):
        frame = read_upload("note", text).result.frame
        assert frame[["draft_tokens_k", "sd_value"]].to_numpy().tolist() == [[1, 2290], [3, 1980]]
    (row,) = read_upload(
        "note", b"1,900 tokens/s without, 1,450 with, K=5, batch 64"
    ).result.frame.itertuples()
    assert (row.baseline_value, row.sd_value, row.draft_tokens_k, row.batch_size) == (
        1900,
        1450,
        5,
        64,
    )
    told = b"1,450 tokens/s instead of 1,900 with MTP K=1 at 64 concurrent requests"
    (row,) = read_upload("note", told).result.frame.itertuples()
    assert (row.baseline_value, row.sd_value, row.draft_tokens_k, row.batch_size) == (
        1900,
        1450,
        1,
        64,
    )
    several = b"2210 tok/s without, 1980 with K=3, with K=1 at 64 concurrent requests"
    assert read_upload("note", several).result.frame["sd_value"].tolist() == [1980]
    left = read_upload(
        "note", b"2210 tokens/s without, 2290 with K=1, 1980 with three drafts"
    ).result
    said(not_read=lines_with(left.warnings, "not read"))
