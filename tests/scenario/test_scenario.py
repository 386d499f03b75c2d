"""Scenario: validation, hash, URL and JSON round trips."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.scenario_fields import DEFAULT_CONTEXT_TOKENS, mean_context
from advisor.prediction import AdvisorError

CONFIG = json.dumps({"model_type": "mixtral", "hidden_size": 64, "name": "käse & co"})


def test_how_much_is_accepted_has_no_default() -> None:
    with pytest.raises(AdvisorError, match="acceptance"):
        build_scenario(hardware_id="h200-sxm")


@given(
    batch=st.integers(1, 65536),
    gpus=st.sampled_from([1, 2, 4, 8]),
    k_max=st.integers(1, 32),
    limit=st.none() | st.floats(0.01, 1e4),
    config=st.none() | st.just(CONFIG),
    routing=st.sampled_from(["auto", "uniform", "a b&c=d"]),
)
def test_a_link_restores_the_scenario(
    batch: int, gpus: int, k_max: int, limit: float | None, config: str | None, routing: str
) -> None:
    scenario = Scenario(
        acceptance="0.7,0.5",
        batch_size=batch,
        n_gpus=gpus,
        tensor_parallel=gpus,
        k_max=k_max,
        max_tpot_ms=limit,
        model_config_json=config,
        routing=routing,
    )
    again = Scenario.from_query("?" + scenario.to_query())
    assert again == scenario
    assert again.hash == scenario.hash
    assert Scenario.model_validate_json(scenario.model_dump_json()) == scenario


def test_the_hash_changes_with_every_choice_and_with_nothing_else() -> None:
    one, same, other = (Scenario(acceptance="2@3", batch_size=size) for size in (4, 4, 5))
    assert one.hash == same.hash != other.hash
    assert len(one.hash) == 12


def test_hashes_in_reports_that_were_written_hold() -> None:
    """A field that is added later must be marked `is_younger`, or every hash changes."""
    assert Scenario(acceptance="2.4@3", kv_dtype="bf16").hash == "143e33ba133d"
    assert Scenario(acceptance="2.4@3", kv_dtype="bf16", hardware_json="{}", refit="on=x").hash == "00be8028c608"


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        ({"n_gpus": 8, "tensor_parallel": 3}, "tensor_parallel=3 does not divide n_gpus=8"),
        ({"n_gpus": 4, "expert_parallel": 8}, "expert_parallel=8 does not divide n_gpus=4"),
        ({"input_tokens": 100}, "go together"),
        ({"input_tokens": 4096, "output_tokens": 256, "context_tokens": 2048}, "shorter than the prompt"),
        ({"input_tokens": 4096, "output_tokens": 256, "context_tokens": 2048}, "prompt and half the output: 4224"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 10**9}, "batch_size"),
        ({"k_max": -1}, "k_max"),
        ({"max_tpot_ms": float("nan")}, "max_tpot_ms"),
        ({"max_tpot_ms": 0}, "max_tpot_ms"),
        ({"max_tpot_ms": 1e7}, "max_tpot_ms"),
        ({"engine": "tgi"}, "engine"),
        ({"weight_dtype": "fp3"}, "weight_dtype"),
        ({"nonsense": 1}, "nonsense"),
        ({"acceptance": ""}, "acceptance"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(values: dict[str, object], fragment: str) -> None:
    with pytest.raises(AdvisorError) as caught:
        build_scenario(**({"acceptance": "2@3"} | values))
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("packed", ["x", "====", "%00", "eJwDAAAAAAE", "A" * 5000])
def test_a_damaged_link_says_so(packed: str) -> None:
    with pytest.raises(AdvisorError, match=r"damaged|link"):
        Scenario.from_query(f"acceptance=2@3&model_config_json={packed}")


def test_a_link_that_unpacks_to_more_than_a_config_is_refused() -> None:
    import base64
    import zlib

    bomb = base64.urlsafe_b64encode(zlib.compress(b" " * 50_000_000, 9)).decode()
    with pytest.raises(AdvisorError, match="model_config_json"):
        Scenario.from_query(f"acceptance=2@3&model_config_json={bomb}")


@given(st.text(max_size=200))
def test_any_query_string_gives_a_scenario_or_one_sentence(query: str) -> None:
    message = ""
    try:
        Scenario.from_query(query)
    except AdvisorError as error:
        message = str(error)
    assert "\n" not in message


def test_a_context_left_out_is_the_prompt_and_half_the_output_and_else_the_default() -> None:
    lengths = {"input_tokens": 4096, "output_tokens": 301}
    assert build_scenario(acceptance="2@3").context_tokens == DEFAULT_CONTEXT_TOKENS == 2048
    assert build_scenario(acceptance="2@3", **lengths).context_tokens == 4246
    texts = {name: str(value) for name, value in lengths.items()}
    assert build_scenario(acceptance="2@3", **texts).context_tokens == 4246
    assert build_scenario(acceptance="2@3", **lengths, context_tokens=6000).context_tokens == 6000
    assert mean_context(4096, 301) == 4246.5


@pytest.mark.parametrize("context", [DEFAULT_CONTEXT_TOKENS, 1250, 9000])
def test_a_link_keeps_the_context_beside_lengths(context: int) -> None:
    scenario = Scenario(acceptance="2@3", input_tokens=1000, output_tokens=500, context_tokens=context)
    assert Scenario.from_query(scenario.to_query()) == scenario


def test_a_length_that_is_no_number_is_still_named() -> None:
    with pytest.raises(AdvisorError, match="input_tokens"):
        build_scenario(acceptance="2@3", input_tokens="many", output_tokens="5")
