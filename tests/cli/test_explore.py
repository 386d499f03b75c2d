"""`explore` and `expert-ranks` as a user calls them: the questions of the day, and what machines
read."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.models import model_ids, model_profile
from advisor.physics.expert_ranks import drawn_choices, skewed_loads
from advisor.physics.hardware import load_hardware
from advisor.show.words.sweep import fastest_of_each
from tests.catalog.test_hardware import POD
from tests.command_line import QWEN, Run, flat, next_of

LOAD = ("explore", "--gpus", "8xH200", "--users", "64", "--max-tpot-ms", "20")
RANK = (*LOAD, "--models", "all")


FEW = (*LOAD, "--models", "qwen3-30b-a3b,gpt-oss-*,deepseek-v3")


@pytest.mark.filterwarnings("error")
def test_the_kind_of_text_is_one_option_that_the_settings_say(run: Run) -> None:
    one = ("explore", "--hardware", "h200-sxm", "--models", "gpt-oss-20b", "--json")
    status, out, _ = run(*one, "--task", "chat")
    assert status == 0
    found = json.loads(out)
    assert found["settings"]["task"] == "chat"
    assert "MT-Bench" in found["models"][0]["acceptance_text"]


def test_the_whole_board_goes_into_a_spreadsheet(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "board.csv"
    status, _, _ = run(*FEW, "--by", "speed", "--top", "1", "--csv", file)
    assert status == 0
    rows = list(csv.DictReader(file.open(encoding="utf-8")))
    times = [float(row["tpot_s"]) for row in rows]
    assert (len(times), times) == (4, sorted(times))
    for row in rows:
        assert float(row["tpot_s_low"]) <= float(row["tpot_s"]) <= float(row["tpot_s_high"])


def test_scores_of_one_s_own_filter_and_stand_beside(tmp_path: Path, run: Run) -> None:
    scores = tmp_path / "scores.csv"
    scores.write_text(
        "model,elo,licence\nqwen3-30b-a3b,1300,apache\ngpt-oss-120b,1350,apache\nqwen3-4b,1200,mit\n"
    )
    status, out, _ = run(*RANK, "--scores", scores, "--where", "licence=apache", "--quality", "elo")
    assert status == 0
    assert "front" in out
    assert f"{len(model_ids()) - 2} models: left out by the table of scores" in out
    status, out, _ = run(*RANK, "--scores", scores, "--min-quality", "1320")
    listed = [line.split()[2] for line in out.splitlines() if line.lstrip()[:1].isdigit()]
    assert "gpt-oss-120b" in out
    assert "qwen3-30b-a3b" not in listed


def test_a_cache_line_of_one_server_is_refused_where_servers_vary(run: Run) -> None:
    asked = ("explore", *QWEN, "--kv-cache-tokens", "100,000", "--context", "8192")
    status, out, _ = run(*asked, "--vary", "batch=8,16", "--json")
    assert status == 0
    fits = {row["batch_size"]: row["fits"] for row in json.loads(out)}
    assert fits == {8: True, 16: False}
    for vary in ("tp=1,2", "kv-dtype=bf16,fp8"):
        status, _, refusal = run(*asked, "--vary", vary)
        assert status != 0
        assert "--kv-cache-tokens" in refusal


def test_the_map_is_machine_readable(run: Run) -> None:
    status, out, _ = run(
        "explore", *QWEN, "--vary", "context=1024,8192", "--vary", "batch=1,64", "--json"
    )
    assert status == 0
    read = json.loads(out)
    assert {(cell["context_tokens"], cell["batch_size"]) for cell in read["cells"]} == {
        (context, batch) for context in (1024, 2048, 8192) for batch in (1, 16, 64)
    }
    assert all(cell["low"] <= cell["speedup"] <= cell["high"] for cell in read["cells"])


ASKED = (
    "expert-ranks --hardware h200-sxm --ep 8 --model qwen3-30b-a3b --batch 16 --k-max 2 --drafter "
    "eagle3"
)
RANKS = (*ASKED.split(), "--accepted-length", "2.4@3")


def trace_file(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    ids = drawn_choices(skewed_loads(128, 8, 0.5, 3, rng), 8, 20, 32, rng, 0.1, 0.2)
    np.save(folder / "trace.npy", ids.astype(np.uint8))
    return folder / "trace.npy"


def test_without_a_trace_the_ranks_are_drawn_and_called_assumed(run: Run) -> None:
    status, out, _ = run(*RANKS)
    assert status == 0
    assert out.startswith("Qwen3-30B-A3B on 8 expert-parallel ranks")
    assert "note: Loads of ranks: assumed" in out
    assert "warning: Expert-parallel imbalance follows an assumed formula" in out
    headings = ("Layouts, each at its recommended K:", "Experts in order, by K:")
    assert all(heading in out for heading in headings)


def test_the_first_of_a_ranking_is_asked_for_as_one_of_its_copies(run: Run) -> None:
    """Users are dealt to copies: the fullest of two that share 1,001 has 501 of them."""
    ranking = ("explore", "--models", "gpt-oss-20b", "--gpus", "2xH200", "--by", "speed")
    asked = (*ranking, "--users", "1001")
    first = json.loads(run(*asked, "--json")[1])["models"][0]
    assert (first["copies"], first["gpus"]) == (2, 2)
    words = next_of(run(*asked)[1])
    assert words[words.index("--batch") + 1] == "501"
    assert words[words.index("--gpus") + 1] == "1xh200-sxm"


def test_loads_and_copies_are_taken_as_given(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "loads.csv"
    rows = [
        f"{layer},{expert},{9 if expert < 16 else 1}" for layer in range(2) for expert in range(128)
    ]
    file.write_text("\n".join(["layer,expert,tokens", *rows]))
    status, out, _ = run(*RANKS, "--expert-loads", file, "--copies", "0,16", "--json")
    assert status == 0
    told = json.loads(out)
    assert [one["redundant"] for one in told["layouts"]] == [0, 0, 0, 16]
    in_order = told["layouts"][1]["fullest_rows_over_mean"][-1]
    balanced = told["layouts"][2]["fullest_rows_over_mean"][-1]
    assert in_order > 3.0 > 2.0 > balanced  # 144 of 256 parts on one of eight ranks


def test_a_trace_s_loads_are_written_and_taken_by_other_commands(tmp_path: Path, run: Run) -> None:
    out = tmp_path / "loads.txt"
    status, told, _ = run("trace", trace_file(tmp_path), "--experts", 128, "--output", out)
    assert (status, f"--expert-loads {out}" in told) == (0, True)
    assumed = json.loads(run("advise", *RANKS[1:], *(), "--json")[1])
    counted = json.loads(
        run("advise", *RANKS[1:], *("--expert-loads", out, "--redundant-experts", "8"), "--json")[1]
    )
    assert counted["scenario"]["redundant_experts"] == 8
    assert any("assumed formula" in text for text in assumed["warnings"])
    assert not any("assumed formula" in text for text in counted["warnings"])
    assert any("counted on your loads" in text for text in counted["warnings"])


def test_a_sweep_writes_its_parts_and_says_how_many(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "grid.yaml"
    out = tmp_path / "out"
    file.write_text(
        "acceptance: 2.4@3\nhardware_id: [h100-sxm, h200-sxm]\nbatch_size: [1, 8]\nk_max: 2\n"
    )
    status, text, _ = run("explore", "--plan", file, "--output", out, "--dry-run")
    assert (status, text) == (0, "4 scenarios: 2 combinations at 2 batches\n")
    assert not out.exists()
    status, text, _ = run("explore", "--plan", file, "--output", out)
    assert status == 0
    assert text.startswith("4 scenarios: 1 part in ")
    assert len(pd.read_parquet(out / "part-000000.parquet")) == 12
    status, text, _ = run("explore", "--plan", file, "--output", out, "--json")
    assert (json.loads(text)["found"], json.loads(text)["scenarios"]) == (1, 4)


def test_a_sweep_takes_models_and_accelerators_of_ones_own_by_their_content(
    tmp_path: Path, run: Run
) -> None:
    shipped = dict(model_profile("qwen3-30b-a3b").config)
    for name, config in {
        "a": shipped,
        "b": shipped,
        "qwen3-30b-a3b": {**shipped, "num_experts": 512},
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    plan = tmp_path / "grid.yaml"
    out = tmp_path / "out"
    own = "a/config.json, b, qwen3-30b-a3b/config.json, qwen3-30b-a3b"
    plan.write_text(
        f"model_id: [{own}]\nhardware_id: [pod.json]\nacceptance: 2.4@3\ndrafter_id: "
        "ngram\nbatch_size: 16\nk_max: 3\n"
    )
    status, _, said = run("explore", "--plan", plan, "--output", out)
    assert status == 0, said
    rows = pd.read_parquet(out / "part-000000.parquet")
    assert set(rows["reason"]) == {""}
    by_name = {name: group["speedup"].tolist() for name, group in rows.groupby("model_id")}
    shown = {
        name.rpartition("-")[0] if name.startswith("own-") else name: found
        for name, found in by_name.items()
    }
    assert set(shown) == {"own-a", "own-b", "own-qwen3-30b-a3b", "qwen3-30b-a3b"}
    assert shown["own-a"] == shown["own-b"] == shown["qwen3-30b-a3b"] != shown["own-qwen3-30b-a3b"]
    assert rows["hardware_id"].str.startswith("own-").all()
    (tmp_path / "b" / "config.json").write_text(json.dumps({**shipped, "num_experts": 64}))
    assert "holds another sweep" in run("explore", "--plan", plan, "--output", out)[2]
    plan.write_text("model_id: [none.json]\nacceptance: 2.4@3\nbatch_size: 16\n")
    status, _, said = run("explore", "--plan", plan, "--output", tmp_path / "new")
    assert (status, said.count("\n")) == (2, 1)
    assert "none.json" in said


def test_a_varied_field_is_answered_as_advise_answers_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    asked = (
        "explore",
        *QWEN[2:],
        "--vary",
        f"hardware=h200-sxm,{tmp_path}/pod.json",
        "--vary",
        "batch=1,16",
    )
    status, out, err = run(*asked, "--json")
    assert status == 0, err
    best = {
        (row["hardware_id"][:4], row["batch_size"]): row
        for row in json.loads(out)
        if row["recommended"]
    }
    assert len(best) == 4
    for (place, batch), row in best.items():
        named = "h200-sxm" if place == "h200" else tmp_path / "pod.json"
        answer = json.loads(
            run("advise", *QWEN[2:], "--hardware", named, "--batch", batch, "--json")[1]
        )
        found = answer["recommendation"]
        assert (row["n_draft"], row["tier"]) == (found["n_draft"], found["tier"])
        assert row["speedup"] == pytest.approx(found["speedup"], rel=1e-3)
    _, table, _ = run(*asked)
    assert table.splitlines()[0].split()[:3] == ["hardware", "batch", "K"]
    assert len(table.splitlines()) >= 5


def test_machines_vary_as_gpus_are_typed_and_are_placed_as_one_answer_places_them(
    run: Run, tmp_path: Path
) -> None:
    asked = ("explore", "deepseek-v3", "--vary", "batch=1,16", "--csv")
    out = tmp_path / "rows.csv"
    for typed in (
        ("--vary", "gpus=8xH200,8xB200"),
        ("--gpus", "8", "--vary", "hardware=H200,b200"),
    ):
        status, shown, said = run(*asked, out, *typed)
        assert (status, "TP 8" in said) == (0, True), said
        assert f"36 rows written to {out}" in flat(shown)
        rows = pd.read_csv(out)
        assert set(rows["tensor_parallel"]) == {8}
        assert set(rows["hardware_id"]) == {"h200-sxm", "b200-sxm"}
        assert rows["fits"].all()
        assert "Most tokens/s per GPU: b200-sxm, at every batch." in flat(shown)


def test_the_fastest_at_each_batch_are_named_with_their_ties() -> None:
    values = {
        "engine": ["a", "b"] * 2,
        "batch_size": [1, 1, 8, 8],
        "tokens_per_s_per_gpu": [100.0, 99.2, 98.0, 100.0],
    }
    best = pd.DataFrame(values)
    assert (
        fastest_of_each(best, ["engine"])
        == "Most tokens/s per GPU: a (within 1%: b) at batch 1; b at batch 8."
    )
    best = best.assign(usd=[2.0, 1.0, 1.0, 1.0])
    assert fastest_of_each(best, ["engine"]).endswith(
        " Cheapest per token: a and b; prices by the profiles (hardware ID)."
    )


def test_accelerators_are_compared_by_cost_where_each_has_a_price(run: Run) -> None:
    grid = ("--vary", "gpus=1xh200-sxm,1xmi300x", "--batch", "16")
    status, shown, said = run("explore", "gpt-oss-20b", *grid)
    assert status == 0, said
    head, *rows = (line for line in shown.splitlines() if "  " in line)
    assert "USD/M tokens" in head
    for line in rows[:2]:
        price = load_hardware(line.split()[0]).price_usd_per_hour
        *_, rate, usd = (
            cell for cell in line.replace(",", "").split() if re.fullmatch(r"[\d.]+", cell)
        )
        assert float(usd) == pytest.approx(price.value / 0.0036 / float(rate), rel=0.01)


def test_kernels_that_stand_in_are_told_with_the_combinations_they_concern(run: Run) -> None:
    where = ("deepseek-v3", "--gpus", "8xH200")
    alone = run("advise", *where, "--engine", "sglang", "-v")[1]
    _, both, _ = run("explore", *where, "--vary", "engine=vllm,sglang")
    said = "Attention layers: not measured for sglang"
    assert f"warning: {said}" in alone
    assert f"warning, 1 of 2 combinations: {said}" in both


def test_what_does_not_fit_is_not_recommended_and_says_what_it_needs(
    run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "rows.csv"
    asked = (
        "explore",
        "deepseek-v3",
        "--hardware",
        "H200",
        "--vary",
        "gpus=4,8",
        "--vary",
        "batch=1",
        "--csv",
        out,
    )
    status, shown, _ = run(*asked)
    assert status == 0
    assert "Batch 1 on 4 x h200-sxm, TP 4: needs TP 8 (--tp)." in flat(shown)
    assert set(pd.read_csv(out).query("recommended")["n_gpus"]) == {8}


def test_an_accelerator_is_said_once(run: Run) -> None:
    for typed in (
        ("--gpus", "8xH200", "--vary", "hardware=B200"),
        ("--gpus", "8", "--vary", "gpus=8xH200"),
    ):
        status, _, said = run("explore", "deepseek-v3", *typed)
        assert (status, "--gpus" in said) == (2, True)


def test_drafters_stand_side_by_side_and_the_one_that_gains_most_is_asked_next(run: Run) -> None:
    words = ("explore", "gpt-oss-20b", "--gpus", "1xB200", "--batch", "8", "--vary")
    status, out, _ = run(*words, "drafter", "--json")
    assert status == 0
    answer = json.loads(out)
    drafters = {row["drafter"]: row for row in answer["drafters"]}
    assert drafters["p-eagle"]["acceptance"] == "gpt-oss-20b-p-eagle-mt-bench"
    assert drafters["p-eagle"]["speedup"] > drafters["eagle3"]["speedup"] > 1.0
    assert drafters["ngram"]["speedup"] is None
    assert len(answer["refused"]) == 1
    _, shown, _ = run(*words, "drafter=eagle3,p-eagle")
    following = next_of(shown)
    assert "p-eagle" in following
    assert run(*following[following.index("advise") :])[0] == 0


def test_drafters_of_a_grid_keep_their_own_lengths(run: Run) -> None:
    words = ("explore", "gpt-oss-20b", "--gpus", "1xB200", "--vary", "batch=1,8", "--json")
    status, out, _ = run(*words, "--vary", "drafter=eagle3,p-eagle")
    assert status == 0
    lengths = {(row["drafter_id"], row["acceptance"]) for row in json.loads(out)}
    assert lengths == {
        ("eagle3", "gpt-oss-20b-eagle3-mt-bench"),
        ("p-eagle", "gpt-oss-20b-p-eagle-mt-bench"),
    }
