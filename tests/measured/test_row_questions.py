"""A published row as a question: names, lengths, metrics and the kind of engine build."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.measured.points import published_rows
from advisor.measured.row_questions import ALPHA_SPREAD, question_of
from advisor.predict.curve import curve_for
from tests.golden.sentences import Golden, lines_with
from tests.measured.test_points import ROW


def test_a_same_chip_of_another_edition_is_named_among_what_was_assumed() -> None:
    asked = question_of(ROW | {"hardware_id": "RTX PRO 6000 Blackwell Max-Q"})
    assert "hardware_id=rtx-pro-6000-blackwell" in asked.assumed
    assert not any(text.startswith("hardware_id") for text in question_of(ROW).assumed)


def test_a_weight_format_in_the_name_counts_where_the_row_states_none() -> None:
    name = {"model_id": "Qwen/Qwen3-30B-A3B-FP8"}
    assert question_of(ROW | name).scenario.weight_dtype == "fp8_block"
    assert question_of(ROW | name | {"weight_dtype": "bf16"}).scenario.weight_dtype == "bf16"


def test_a_prompt_of_no_tokens_is_a_short_one() -> None:
    short = question_of(ROW | {"input_tokens": "0"})
    unstated = question_of(ROW)
    assert short.scenario == unstated.scenario
    assert "context_tokens=2048" in short.assumed
    with_output = question_of(ROW | {"input_tokens": "0", "output_tokens": "512"}).scenario
    assert with_output.context_tokens == 512 + 256
    assert with_output.input_tokens is None


@pytest.mark.parametrize(
    ("metric", "charged"),
    [
        ("output_tok_per_s", True),
        ("total_tok_per_s", True),
        ("output_tok_per_s_per_gpu", True),
        ("request_latency_s", True),
        ("decode_tok_per_s", False),
    ],
)
def test_prefill_is_charged_to_throughput_and_request_latency(metric: str, charged: bool) -> None:
    lengths = {"input_tokens": "1000", "output_tokens": "500", "metric": metric}
    assert (question_of(ROW | lengths).scenario.input_tokens == 1000) == charged


def test_a_batch_timed_until_its_last_sequence_waits_for_the_slowest() -> None:
    """Chance .5 of each of 3 drafts: d ln AL / d ln alpha = (.5 + 2 .25 + 3 .125) / 1.875 =
    .733."""
    row = ROW | {
        "batch_size": "16",
        "draft_tokens_k": "3",
        "accepted_length": "1.875",
        "accepted_length_same_run": "1",
    }
    steady = question_of(row | {"batch_kind": "concurrency"})
    last = question_of(row | {"batch_kind": "until_last"})
    assert steady.scenario.acceptance == "1.875@3"
    shares = {
        batch: sum(
            time.item()
            for name, time in curve_for(
                steady.setup(), [batch], [3], central_only=True
            ).round_components.items()
            if name
            not in (
                "launch",
                "host",
                "draft",
                "draft_host",
                "round_host",
                "reread",
                "verified",
                "verify_tokens",
                "eager",
            )
        )
        for batch in (1, 16)
    }
    waits = 1 + ALPHA_SPREAD * 1.375 / 1.875 * 1.7697 * shares[1] / shares[16]
    assert float(last.scenario.acceptance.removesuffix("@3")) == pytest.approx(
        1.875 / waits, rel=1e-4
    )
    alone = question_of(row | {"batch_size": "1", "batch_kind": "until_last"})
    assert alone.scenario.acceptance == "1.875@3", "one sequence waits for nobody"
    borrowed = row | {"accepted_length_same_run": "0"}
    assert (
        question_of(borrowed | {"batch_kind": "until_last"}).scenario.acceptance
        == steady.scenario.acceptance
    )


@pytest.mark.parametrize(
    ("cell", "source"), [("", "same_run"), ("0", "same_run"), ("1", "borrowed")]
)
def test_a_length_that_is_a_mean_over_requests_counts_as_borrowed(cell: str, source: str) -> None:
    row = ROW | {"accepted_length_same_run": "1", "accepted_length_per_request": cell}
    assert question_of(row).acceptance_source == source


@pytest.mark.parametrize(
    ("cell", "charged"), [("", True), ("0", True), ("1", False), ("1.0", False)]
)
def test_a_row_whose_prompts_were_cached_pays_no_prefill_and_keeps_its_context(
    cell: str, charged: bool
) -> None:
    lengths = {"input_tokens": "1000", "output_tokens": "500", "metric": "output_tok_per_s"}
    scenario = question_of(ROW | lengths | {"prompts_cached": cell}).scenario
    assert (scenario.input_tokens == 1000) == charged
    assert scenario.context_tokens == 1250


UNCOUNTED = ROW | {
    "model_id": "glm-5.2",
    "drafter": "mtp",
    "accepted_length": "",
    "accepted_length_same_run": "",
}


@pytest.mark.parametrize(
    ("cells", "task", "carried_from"),
    [
        ({"task": "chat"}, "chat", "coding"),
        ({"dataset": "MT-Bench"}, "chat", "coding"),  # the kind of a known prompt set
        ({"task": "Long document"}, "long_document", "coding"),
        ({"task": "coding"}, "coding", ""),
        (
            {"task": "chat", "dataset": "SPEED-Bench coding"},
            None,
            "",
        ),  # the very prompts of the curve
        ({"task": "random"}, None, ""),
        ({"task": "chat", "accepted_length": "2.4"}, None, ""),  # its own number
    ],
)
def test_an_accepted_length_that_a_row_lacks_is_carried_to_its_kind_of_text(
    cells: dict[str, str], task: str | None, carried_from: str
) -> None:
    question = question_of(UNCOUNTED | cells)
    plain = (
        question_of(UNCOUNTED | {"accepted_length": cells.get("accepted_length", "")})
        .setup()
        .acceptance
    )
    found = question.setup().acceptance
    assert (question.scenario.task, found.carried_from) == (task, carried_from)
    wider = np.log(found.high[3] / found.low[3]) > np.log(plain.high[3] / plain.low[3])
    assert wider == (found.accepted_length[3] != plain.accepted_length[3]) == bool(carried_from)


def test_an_unknown_kind_of_text_is_said_and_carries_nothing(golden: Golden) -> None:
    question = question_of(UNCOUNTED | {"task": "poems"})
    assert question.scenario.task is None
    golden(poems_none=lines_with(question.assumed, "'poems' is"))


def test_a_round_that_emits_one_token_accepts_nothing() -> None:
    asked = question_of(ROW | {"accepted_length": "1.0"})
    assert asked.setup().acceptance.accepted_length[3] == 1.0


SERVER = ROW | {
    "hardware_id": "h200-sxm",
    "engine": "sglang",
    "model_id": "qwen3-30b-a3b",
    "batch_size": "64",
}


def placed(**cells: object) -> tuple[int, int, int, int, float]:
    asked = question_of(SERVER | {name: str(value) for name, value in cells.items()})
    one = asked.scenario
    return one.n_gpus, one.tensor_parallel, one.expert_parallel, one.batch_size, asked.batch_share


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"gpu_count": 8, "tensor_parallel": 1, "data_parallel": 8}, (8, 1, 1, 8, 1 / 8)),
        ({"gpu_count": 8, "tensor_parallel": 2, "data_parallel": 4}, (8, 2, 1, 16, 1 / 4)),
        ({"gpu_count": 8, "tensor_parallel": "", "data_parallel": 4}, (8, 2, 1, 16, 1 / 4)),
        ({"gpu_count": "", "tensor_parallel": 1, "data_parallel": 8}, (8, 1, 1, 8, 1 / 8)),
        (
            {"gpu_count": 8, "tensor_parallel": 1, "data_parallel": 8, "expert_parallel": 8},
            (8, 1, 8, 64, 1.0),
        ),
        (
            {"gpu_count": 16, "tensor_parallel": 2, "data_parallel": 8, "expert_parallel": 4},
            (16, 2, 4, 16, 1 / 4),
        ),
        (
            {"gpu_count": 8, "tensor_parallel": 8, "data_parallel": 8, "expert_parallel": 8},
            (8, 1, 8, 64, 1.0),
        ),
        ({"gpu_count": 8, "tensor_parallel": 8, "data_parallel": 1}, (8, 8, 1, 64, 1.0)),
        ({"gpu_count": 8, "tensor_parallel": 8}, (8, 8, 1, 64, 1.0)),
        (
            {"gpu_count": 4, "tensor_parallel": 1, "batch_kind": "requests_per_rank"},
            (4, 1, 4, 256, 4.0),
        ),
    ],
)
def test_a_copy_decodes_its_part_of_the_whole_servers_batch(cells, expected) -> None:
    assert placed(**cells) == pytest.approx(expected)


def test_a_dense_model_under_vllm_has_copies_and_no_experts_to_ask_for() -> None:
    assert placed(
        gpu_count=4, tensor_parallel=1, data_parallel=4, engine="vllm", model_id="qwen3-32b"
    )[3:] == (
        16,
        1 / 4,
    )


def test_a_benchmark_of_one_prompt_touches_fewer_experts_than_others() -> None:
    row = ROW | {
        "hardware_id": "h200-sxm",
        "model_id": "kimi-k2",
        "gpu_count": "8",
        "tensor_parallel": "8",
    }
    mixed = question_of(row | {"dataset": "MT-Bench"}).scenario
    one = question_of(row | {"dataset": "llm_decode_bench"}).scenario
    assert mixed.routing == "auto"
    cv, affinity, _ = (float(part.split("/")[0]) for part in one.routing.split(","))
    # Sequences meet as two distant tokens of one do: (J + (1 - J) phi) N/k - 1 of
    # class-fine-one-shared-one-domain.
    overlap = 8 / 384 * (1 + 1.27**2)
    assert cv == pytest.approx(np.sqrt((overlap + (1 - overlap) * 0.053) * 384 / 8 - 1), rel=5e-3)
    assert affinity == 0.0


def test_text_of_one_domain_shares_more_experts_between_sequences() -> None:
    row = ROW | {
        "hardware_id": "h200-sxm",
        "model_id": "qwen3-30b-a3b",
        "gpu_count": "1",
        "tensor_parallel": "1",
    }
    routing = {
        task: question_of(row | {"task": task}).scenario.routing
        for task in ("coding", "math", "chat")
    }
    assert routing["chat"] == "auto"
    cv, affinity, stickiness = (float(part.split("/")[0]) for part in routing["coding"].split(","))
    # From 0.92 to 1.27 and from 0.08 to 0.053 on the model whose domains were counted apart.
    assert cv == pytest.approx(
        np.sqrt((1 + 0.51**2) * (1 + 1.27**2) / (1 + 0.923**2) - 1), rel=5e-3
    )
    assert (affinity, stickiness) == (pytest.approx(0.22 * 0.053 / 0.08, rel=5e-3), 0.28)
    assert routing["math"] == routing["coding"]


def test_a_row_verifies_as_its_own_build_did() -> None:
    """On an A100 a cache in 8 bits took 6.7 to 9.6 ms a round more than one in 16, whatever the
    batch (24 pairs)."""
    beside: dict[str, list[float]] = {"bf16": [], "fp8": []}
    for row in published_rows("published_speedups_3").to_dict("records"):
        if str(row["point_id"]).startswith("manoj-"):
            question = question_of(row)
            curve = curve_for(
                question.setup(), [question.scenario.batch_size], [5], central_only=True
            )
            parts = curve.round_components
            beside[row["kv_dtype"]].append(
                1e3 * (parts.get("between_graphs", np.zeros(1)) + parts["draft"]).item()
            )
    more_ms = np.subtract(beside["fp8"], beside["bf16"])
    assert len(more_ms) == 24
    assert np.all((more_ms > 3.3) & (more_ms < 6.7)), (
        "half of it and more, by pairs of other models and machines"
    )


def test_text_of_one_domain_leaves_dense_models_alone() -> None:
    coding = ROW | {"task": "coding", "gpu_count": "1", "tensor_parallel": "1"}
    assert question_of(coding | {"model_id": "llama-3.1-8b"}).scenario.routing == "auto"


@pytest.mark.parametrize(
    ("metric", "batch", "output_tokens"),
    [
        *(("output_tok_per_s", "4", 1024), ("output_tok_per_s", "1", 1024)),
        # Each of the other three brings one prompt while this one decodes.
        *(("tpot_ms", "4", 1365), ("decode_tok_per_s_per_user", "4", 1365), ("tpot_ms", "1", None)),
    ],
)
def test_a_metric_pays_for_the_prompts_that_it_waits_for(
    metric: str, batch: str, output_tokens: int | None
) -> None:
    row = ROW | {
        "metric": metric,
        "batch_size": batch,
        "input_tokens": "1024",
        "output_tokens": "1024",
    }
    scenario = question_of(row).scenario
    assert scenario.output_tokens == output_tokens
    assert scenario.context_tokens == 1536


@pytest.mark.parametrize(
    ("date", "gpus", "share"),
    [("2025-06-01", 1, 0.625), ("2025-06-01", 2, 1.0), ("2026-09-01", 1, 1.0)],
)
def test_a_synchronous_round_waits_less_for_the_host_of_one_gpu(
    date: str, gpus: int, share: float
) -> None:
    row = ROW | {
        "engine": "SGLang",
        "date": date,
        "gpu_count": str(gpus),
        "tensor_parallel": str(gpus),
    }
    setup = question_of(row | {"hardware_id": "h200-sxm"}).setup()
    curve = curve_for(setup, [1], [1])
    assert curve.components_at(0, 0)[1]["round_host"] == pytest.approx(
        share * setup.costs.host_per_round_s
    )


@pytest.mark.parametrize("model_id", ["llama-3.1-8b", "mixtral-8x7b"])
def test_a_model_of_a_class_whose_domains_were_not_counted_keeps_its_routing(model_id: str) -> None:
    assert (
        question_of(ROW | {"model_id": model_id, "dataset": "llm_decode_bench"}).scenario.routing
        == "auto"
    )


def test_experts_in_four_bits_are_those_of_the_checkpoint_where_it_has_such() -> None:
    row = ROW | {"hardware_id": "h200-sxm", "weight_dtype": "fp4_experts"}
    assert (
        question_of(row | {"model_id": "deepseek-v4-flash"}).setup().architecture.dtypes.routed
        == "mxfp4"
    )
    assert (
        question_of(row | {"model_id": "qwen3-30b-a3b"}).setup().architecture.dtypes.routed
        == "nvfp4"
    )
