"""A CSV under headers of its own, read by a mapping that the user gives."""

from __future__ import annotations

import hashlib
import json

import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.remap import (
    IGNORE,
    Header,
    likely_targets,
    own_headers,
    targets,
)
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts

OWN = b"# from our tool\nusers;drafted;gain;gap, mean\n1;3;1,9;5\n8;3;1,7;9\n"
MAPPING = {
    "users": "batch_size",
    "drafted": "draft_tokens_k",
    "gain": "speedup",
    "gap, mean": "itl_ms",
}


def test_own_headers_are_read_by_a_mapping_with_units_and_the_file_s_own_hash() -> None:
    with pytest.raises(AdvisorError, match="not recognized"):
        read_upload("own.csv", OWN)
    read = read_upload("own.csv", OWN, columns=MAPPING).result
    assert read.frame["batch_size"].tolist() == [1, 8]
    assert read.frame["draft_tokens_k"].tolist() == [3, 3]
    assert read.frame["speedup"].tolist() == [1.9, 1.7]
    assert read.frame["itl_s"].tolist() == pytest.approx([0.005, 0.009])
    assert read.frame.index.tolist() == [3, 4]
    assert read.sha256 == hashlib.sha256(OWN).hexdigest()


@pytest.mark.parametrize(
    ("data", "mapping", "message"),
    [
        (OWN, {"people": "batch_size"}, "is not in the header"),
        (b"a,a,b\n1,2,3\n", {"a": "batch_size"}, "twice"),
        (OWN, {"users": "itl"}, "give times a unit"),
        (OWN, {"users": "=1+1"}, "no column that is understood"),
        (b"PAR1" + bytes(8) + b"PAR1", {"a": "batch_size"}, "in a CSV or JSON only"),
        (b'{"a": 1}', {"b": "batch_size"}, "is not in the header"),
        (b'{"a": 1, "b": 2}', {"a": "batch_size", "b": "batch_size"}, "both to be read as"),
        (
            OWN,
            {"users": "batch_size", "drafted": "batch_size", "gain": "speedup", "gap, mean": "k"},
            "both to be read as",
        ),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(
    data: bytes, mapping: dict[str, str], message: str
) -> None:
    with pytest.raises(AdvisorError, match=message):
        read_upload("own.csv", data, columns=mapping)


def test_guesses_fill_what_is_near_once_each_and_leave_the_rest_ignored() -> None:
    text = (
        b"# ours\nusers;active users;mean TPOT [ms];p50 ttft;GPU "
        b"name;speed-up;colour\n1;1;5;6;H200;1,9;red\n"
    )
    found = {item.theirs: item.ours for item in own_headers("x.csv", text)}
    assert found == {
        "users": "batch_size",
        "active users": "ignore",
        "mean TPOT [ms]": "tpot_ms",
        "p50 ttft": "ignore",
        "GPU name": "hardware_id",
        "speed-up": "speedup",
        "colour": "ignore",
    }
    native = [item.theirs for item in own_headers("x.csv", text) if item.native]
    assert native == ["users", "mean TPOT [ms]", "GPU name", "speed-up"]
    assert next(item.cells for item in own_headers("x.csv", text) if item.theirs == "speed-up") == (
        "1,9",
    )


def test_understood_headers_keep_their_meaning_and_unit_and_swapped_ones_are_exchanged() -> None:
    text = b"hardware_id,batch_size,TPOT (us),n_experts,n_active\n4,h200,9,8,128\n"
    swapped = [("batch_size", "hardware_id"), ("n_active", "n_experts")]
    found = own_headers("x.csv", text, swapped=swapped)
    assert [item.native for item in found] == [
        "hardware_id",
        "batch_size",
        "tpot_us",
        "n_experts",
        "n_active",
    ]
    assert [item.ours for item in found] == [
        "batch_size",
        "hardware_id",
        "tpot_us",
        "n_active",
        "n_experts",
    ]
    assert all(item.ours in targets() for item in found)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\x00\x01", b"one\n1\n", b"a,a\n1,2\n", b'"a,b\n', b"PAR1"]
)
def test_what_is_no_table_with_distinct_headers_offers_no_columns(data: bytes) -> None:
    assert own_headers("x", data) == ()


def test_a_column_can_be_ignored() -> None:
    both = OWN.replace(b"gain;", b"speedup;").replace(b"gap, mean", b"speed up")
    mapping = {"users": "batch_size", "drafted": "draft_tokens_k", "speed up": IGNORE}
    assert read_upload("own.csv", both, columns=mapping).result.frame["speedup"].tolist() == [
        1.9,
        1.7,
    ]


HOME_MADE = {
    "host": "box7",
    "version": "3",
    "setup": {"model": "Qwen/Qwen3-30B-A3B", "gpu": "H200", "engine": "vllm", "tp": 2},
    "levels": [{"n": 1}],
    "runs": [
        {"batch_size": 1, "k": 0, "times": {"tpot_ms": 8.0, "p99": 9.0}},
        {"batch_size": 8, "k": 3, "times": {"tpot_ms": 5.0, "p99": 6.0}, "accepted_length": 2.4},
    ],
}


def test_home_made_json_is_one_row_a_run_with_the_settings_around_its_list() -> None:
    result = read_upload("mine.json", json.dumps(HOME_MADE).encode()).result
    frame = result.frame
    assert frame["batch_size"].tolist() == [1, 8]
    assert frame["tpot_s"].tolist() == pytest.approx([0.008, 0.005])
    assert set(frame["model_id"]) == {"Qwen/Qwen3-30B-A3B"}
    assert frame["tensor_parallel"].tolist() == [2, 2]
    assert frame["engine_version"].isna().all(), (
        "the version around the runs is that of the file or its tool"
    )
    assert any(
        "from around the list: model, gpu, engine, tp" in text
        for text in reading_texts(result.warnings)
    )


def test_home_made_json_under_other_names_is_mapped_by_the_names_that_the_form_shows() -> None:
    text = json.dumps(HOME_MADE).replace("batch_size", "clients").replace("tpot_ms", "gap").encode()
    names = {item.theirs: item.ours for item in own_headers("mine.json", text)}
    assert {"clients", "k", "gap", "p99", "model"} <= set(names)
    result = read_upload("mine.json", text, {"clients": "batch_size", "gap": "itl_ms"}).result
    assert result.frame["batch_size"].tolist() == [1, 8]
    assert result.frame["itl_s"].tolist() == pytest.approx([0.008, 0.005])


def test_a_markdown_table_is_read_without_its_line_of_dashes() -> None:
    text = "| batch_size | k | tpot_ms |\n|---:|---|:--|\n| 1 | 0 | 8.0 |\n| 8 | 3 | 5.0 |\n"
    result = read_upload("table.md", text.encode()).result
    assert (result.frame.index.tolist(), len(result.rejects)) == ([3, 4], 0)
    assert result.frame["tpot_s"].tolist() == pytest.approx([0.008, 0.005])


@pytest.mark.parametrize(
    "document",
    [
        {
            "gpu": "h200-sxm",
            "batch": {"1": {"K": 3, "tpot_ms": 2.4}, "8": {"K": 3, "tpot_ms": 4.0}},
        },
        {"1": {"K": 3, "tpot_ms": 2.4}, "8": {"K": 3, "tpot_ms": 4.0}},
    ],
)
def test_runs_that_an_object_holds_by_number_are_a_row_each(document):
    columns = None if "batch" in document else {"number": "batch_size"}
    frame = read_upload("own.json", json.dumps(document).encode(), columns).result.frame
    assert frame["batch_size"].tolist() == [1, 8]
    assert frame["tpot_s"].tolist() == pytest.approx([0.0024, 0.004])


@pytest.mark.parametrize(
    ("theirs", "ours", "right"),
    [
        ("latency per token (ms)", "tpot_s", "tpot_ms"),
        ("latency_ms_p50", "tpot_s", "tpot_ms"),
        ("per token [s]", "tpot_ms", "tpot_s"),
        ("latency, seconds", "tpot_ms", "tpot_s"),
        ("round us", "step_time_ms", "step_time_us"),
    ],
)
def test_a_header_with_a_unit_is_not_read_in_another(theirs: str, ours: str, right: str) -> None:
    table = f'batch_size,draft_tokens_k,"{theirs}"\n1,0,5.2\n1,3,3.9\n'.encode()
    with pytest.raises(AdvisorError, match=f"map it to {right}, or correct the header"):
        read_upload("mine.csv", table, columns={theirs: ours})
    read = read_upload("mine.csv", table, columns={theirs: right}).result.frame
    factor = {"s": 1.0, "ms": 1e-3, "us": 1e-6}[right.rpartition("_")[2]]
    assert read[right.rpartition("_")[0] + "_s"].tolist() == pytest.approx(
        [5.2 * factor, 3.9 * factor]
    )


def test_the_unit_of_a_rate_is_no_unit_of_time() -> None:
    table = b"batch_size,draft_tokens_k,tok/s,gen tok per s\n1,0,100,90\n"
    columns = {"tok/s": "total_tok_per_s", "gen tok per s": "output_tok_per_s"}
    assert read_upload("mine.csv", table, columns=columns).result.rows_kept == 1


def test_a_mean_may_stand_behind_its_unit_and_a_near_miss_is_said_as_it_is_typed() -> None:
    read = read_upload("mine.csv", b"bs,spec_tokens,tpot_ms_mean\n1,0,5.2\n").result.frame
    assert read["tpot_s"].tolist() == pytest.approx([5.2e-3])
    with pytest.raises(
        AdvisorError, match=r"not understood: tpot_ms_p99\. Say .*--map theirs=ours$"
    ):
        read_upload("mine.csv", b"bs,spec_tokens,tpot_ms_p99\n1,0,5.2\n")


@pytest.mark.parametrize(
    ("header", "metric"),
    [
        ("users,tps_base,tps_mtp3,gpu,notes", None),
        ("concurrency,tok_s_no_spec,spec3_tok_s,gpu,notes", None),
        (
            "concurrency,baseline tok/s/user,MTP3 tok/s per user,gpu,notes",
            "output_tok_per_s_per_user",
        ),
        ("users,tpot_ms,eagle3_k3_tpot_ms,gpu,notes", "tpot_ms"),
        ("batch,ms_off,ms_mtp3,gpu,notes", None),
    ],
)
def test_pairs_named_in_the_wild_are_read_with_k_as_a_guess_and_what_they_count_asked(
    header: str, metric: str | None
) -> None:
    read = read_upload("mine.csv", f"{header}\n1,90,120,H200,ok\n8,70,95,H200,ok\n".encode()).result
    assert (read.rows_kept, read.frame["batch_size"].tolist()) == (2, [1, 8])
    assert read.frame["baseline_value"].tolist() == [90, 70]
    asked = {item.name: item.prefill for item in read.missing if item.needed}
    assert asked["draft_tokens_k"] == 3
    assert read.frame["draft_tokens_k"].isna().all(), "a guess, not applied"
    assert read.frame["metric"].dropna().unique().tolist() == ([metric] if metric else [])
    if metric is None:
        assert asked["metric"] is None


@pytest.mark.parametrize(
    ("plain", "drafted", "guess"), [("", "2.04", 0), ("2.0", "2.04", None), ("", "", None)]
)
def test_runs_that_count_no_drafts_beside_some_that_do_are_guessed_to_be_without(
    plain: str, drafted: str, guess: int | None
) -> None:
    rows = f"concurrency,K,output tok/s,accepted length\n1,,162,{plain}\n1,2,211,{drafted}\n"
    read = read_upload("mine.csv", rows.encode()).result
    assert {item.name: item.prefill for item in read.missing}["draft_tokens_k"] == guess


def test_k_in_a_name_that_was_mapped_by_hand_stays_a_guess() -> None:
    columns = {"mine": "baseline_tpot_ms", "run mtp3": "sd_tpot_ms"}
    read = read_upload("mine.csv", b"batch,mine,run mtp3\n64,28.5,33.1\n", columns).result
    assert {item.name: item.prefill for item in read.missing}["draft_tokens_k"] == 3
    assert read.frame["speedup"].tolist() == pytest.approx([28.5 / 33.1])


def test_meanings_that_share_words_come_first_and_nothing_before_those_that_share_none() -> None:
    offered = likely_targets(Header("speculative tpot (ms)", IGNORE, None, ()))
    assert sorted(offered) == sorted(targets())
    first = offered[: offered.index(IGNORE)]
    assert {"tpot_ms", "baseline_tpot_ms"} <= set(first)
    assert not {"engine", "gpu_count", "speedup"} & set(first)


@pytest.mark.parametrize(
    ("header", "cell", "read", "guess"),
    [
        ("accept_len", "2.42", "accepted_length", "accepted_length"),
        ("Avg acceptance len", "2.42", "accepted_length", "accepted_length"),
        ("mean_AL", "2.42", "accepted_length", "accepted_length"),
        ("tau", "2.42", None, "accepted_length"),
        ("mean_accepted", "1.42", None, "accepted_length"),
        ("tokens_per_step", "2.42", None, IGNORE),  # with the bonus token, or without it
        ("mean_accepted", "0.42", None, IGNORE),
        ("acceptance_rate", "45", None, IGNORE),
    ],
)
def test_an_accepted_length_is_read_by_its_usual_names(
    header: str, cell: str, read: str | None, guess: str
) -> None:
    text = f"concurrency,tps_no_spec,tps_eagle_k3,{header}\n1,245,410,{cell}\n".encode()
    found = next(item for item in own_headers("x.csv", text) if item.theirs == header)
    assert (found.native, found.ours) == (read, guess)


def test_words_are_offered_no_number_and_guessed_to_be_none() -> None:
    offered = likely_targets(Header("latency (ms)", IGNORE, None, ("fast", "slow")))
    assert {"drafter", IGNORE} <= set(offered)
    assert not {"tpot_ms", "batch_size", "baseline_tpot_ms", "captured"} & set(offered)
    assert "tpot_ms" in likely_targets(Header("latency", IGNORE, None, ("4.1 ms", "n/a")))
    assert own_headers("x.csv", b"name,active users\na,fast\nb,slow\n")[1].ours == IGNORE
