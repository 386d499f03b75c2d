"""Experts on ranks in the session: counted on a trace, on loads or on a preset, and used in every
answer.

Experts on ranks on the page Report: offered under expert parallelism, counted on Data or drawn from
the preset.
"""

from __future__ import annotations

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from advisor.predict.scenario import Scenario, loads_shape, write_loads
from advisor.prediction import AdvisorError
from advisor.ui.answers import remembered
from advisor.ui.share import files as report_files
from tests.measured.test_ingest_traces import npy, synthetic
from tests.pages.app_page import go_to, opened, press, texts
from tests.pages.test_answers import SHIPPED, FakeCache
from tests.pages.test_uploads import alts, upload


def why(**query: object) -> AppTest:
    return opened(
        "serve",
        "Why",
        **({"acceptance": "2.4@3"} | {name: str(value) for name, value in query.items()}),
    )


def given(test: AppTest, name: str, data: bytes) -> AppTest:
    """Serve after a file was dropped on Measure."""
    upload(go_to(test, "measure").run(), name, data)
    return go_to(test, "serve").run()


def forgotten(test: AppTest) -> AppTest:
    """Serve after the trace was forgotten on Measure."""
    go_to(test, "measure").run().button(key="forget_trace").click().run()
    return go_to(test, "serve").run()


def test_ranks_are_counted_on_the_trace_when_the_scenario_has_some() -> None:
    assert "count_ranks" not in {button.key for button in why().button}
    test = why(expert_parallel=8, n_gpus=8)
    assert "Without a trace" in texts(test)
    test = given(test, "trace.npy", npy(synthetic(12, 32, 2, n=128, k=8).astype("uint8")))
    test.number_input(key="rank_copies_8").set_value(3).run()
    press(test, "count_ranks")
    assert "do not fill 8 ranks evenly" in test.error[0].value
    test.number_input(key="rank_copies_8").set_value(8).run()
    press(test, "count_ranks")
    assert not test.error
    assert "on 8 expert-parallel ranks" in texts(test)
    assert "counted on 12 sequences, 2 layers of your trace" in texts(test)
    assert any("ranks serves" in alt for alt in alts(test))
    forgotten(test)
    assert "Without a trace" in texts(test)


def test_ranks_counted_on_one_trace_or_with_other_copies_are_not_shown_for_another() -> None:
    test = why(expert_parallel=8, n_gpus=8)
    ids = synthetic(12, 32, 2, n=128, k=8).astype("uint8")
    test = given(test, "a.npy", npy(ids))
    press(test, "count_ranks")
    assert "on 8 expert-parallel ranks" in texts(test)
    test.number_input(key="rank_copies_8").set_value(16).run()
    assert "on 8 expert-parallel ranks" not in texts(test)
    test.number_input(key="rank_copies_8").set_value(8).run()
    assert "on 8 expert-parallel ranks" in texts(test)
    test = given(test, "b.npy", npy(ids[:, ::-1].copy()))
    assert "on 8 expert-parallel ranks" not in texts(test)
    assert "Counts on your trace" in texts(test)


def test_a_trace_of_another_number_of_experts_is_said_not_to_be_counted() -> None:
    test = why(expert_parallel=8, n_gpus=8)
    test = given(test, "a.npy", npy(synthetic(12, 32, 2, n=128, k=8).astype("uint8")))
    test.session_state["model_id"] = "gpt-oss-20b"
    test.run()
    assert test.session_state["_scenario"].model_id == "gpt-oss-20b"
    assert "Your trace is not counted: it is of 128 experts and gpt-oss-20b has 32" in texts(test)
    assert "Counts on your trace" not in texts(test)


def table(hot: float = 9.0, experts: int = 128) -> bytes:
    """A CSV of loads of two layers whose first 16 experts are `hot` times as popular as the
    others."""
    cells = (
        (layer, expert, hot if expert < 16 else 1)
        for layer in range(2)
        for expert in range(experts)
    )
    return "\n".join(
        ["layer,expert,tokens", *(",".join(map(str, cell)) for cell in cells)]
    ).encode()


def on_ranks(**query: str) -> AppTest:
    return why(expert_parallel="8", n_gpus="8", **query)


def test_loads_are_counted_used_on_every_page_and_undone() -> None:
    test = given(on_ranks(), "loads.csv", table())
    assert "Counts on your table of loads" in texts(test)
    press(test, "count_ranks")
    assert "drawn from your loads of 2 layers" in texts(test)
    test.selectbox(key="rank_layout").select("balanced").run()
    press(test, "use_ranks")
    used: Scenario = test.session_state["_scenario"]
    assert used.redundant_experts == 0
    assert loads_shape(used.expert_loads or "") == (2, 128)
    assert "on 8 expert-parallel ranks" in texts(test)
    go_to(test, "serve")
    assert "Experts on ranks: counted on your loads (2 layers, 128 experts), balanced." in texts(
        test
    ).replace("*", "")
    press(test, "undo_ranks_in_use")
    assert test.session_state["_scenario"] == used.on_assumed_ranks()


def test_a_table_that_cannot_be_read_leaves_the_one_before() -> None:
    test = given(on_ranks(), "loads.csv", table())
    upload(go_to(test, "measure").run(), "cut.csv", b"layer,expert,tokens\n0,x,1")
    assert "cut.csv, line 2" in texts(test)
    go_to(test, "serve").run()
    assert "Counts on your table of loads" in texts(test)


def test_on_a_preset_s_loads_only_balanced_layouts_can_be_used() -> None:
    test = on_ranks()
    press(test, "count_ranks")
    assert test.selectbox(key="rank_layout").options == ["balanced", "balanced, 8 copies"]
    test.selectbox(key="rank_layout").select("balanced, 8 copies").run()
    press(test, "use_ranks")
    used = test.session_state["_scenario"]
    assert (used.expert_loads, used.redundant_experts) == (None, 8)


def test_undoing_a_used_trace_brings_the_routing_back() -> None:
    test = given(
        on_ranks(routing="uniform"), "a.npy", npy(synthetic(12, 32, 2, n=128, k=8).astype("uint8"))
    )
    press(test, "count_ranks", "use_ranks")
    used = test.session_state["_scenario"]
    assert "," in used.routing
    assert loads_shape(used.expert_loads) == (2, 128)
    press(test, "undo_ranks_in_use")
    assert test.session_state["_scenario"].routing == "uniform"


def test_ranks_counted_without_the_scenario_s_loads_are_not_shown_for_them() -> None:
    test = on_ranks()
    press(test, "count_ranks")
    assert "on 8 expert-parallel ranks" in texts(test)
    test.session_state["expert_loads"] = write_loads(np.ones((2, 128)))
    test.run()
    assert "Counts on the loads that the scenario carries" in texts(test)
    assert "on 8 expert-parallel ranks" not in texts(test)


def test_a_link_carries_loads_another_model_leaves_them_aside_and_damage_is_said() -> None:
    loads = write_loads(np.ones((2, 128)))
    test = opened("serve", acceptance="2.4@3", expert_parallel="8", n_gpus="8", expert_loads=loads)
    assert test.session_state["_scenario"].expert_loads == loads
    test.session_state["model_id"] = "gpt-oss-20b"
    test.run()
    assert test.session_state["_scenario"].expert_loads is None
    assert "this model is another" in texts(test)
    test = opened(
        "serve", acceptance="2.4@3", expert_parallel="8", n_gpus="8", expert_loads="2x128:eJw"
    )
    assert "carries loads of experts that cannot be read" in texts(test)
    assert test.session_state["_scenario"].expert_loads is None


WIDE = {"acceptance": "2.4@3", "expert_parallel": "8", "n_gpus": "8", "k_max": "3"}


BEGIN = "## Experts on ranks"


def section(test: AppTest) -> str:
    """The section in the preview."""
    assert not test.exception
    return texts(test).split(BEGIN)[1].split("\n## ")[0]


def counted_on_serve(copies: int) -> AppTest:
    """Serve after its ranks were counted on a trace."""
    test = opened("serve", "Why", **WIDE)
    test = given(test, "a.npy", npy(synthetic(12, 32, 2, n=128, k=8).astype("uint8")))
    test.number_input(key="rank_copies_8").set_value(copies).run()
    press(test, "count_ranks")
    assert not test.error
    return test


def test_it_is_offered_under_expert_parallelism_alone_and_drawn_from_the_preset() -> None:
    asked = opened("share", **(WIDE | {"expert_parallel": "1", "report_ranks": "True"}))
    assert not [item for item in asked.toggle if item.key == "report_ranks"]
    assert BEGIN not in texts(asked)
    assert "Experts on ranks are" not in texts(asked)
    test = opened("share", **WIDE)
    assert BEGIN not in texts(test)
    test.toggle(key="report_ranks").set_value(True).run()
    assert "Experts on ranks are drawn from the routing preset's spread" in texts(test)
    assert "Origin of the counts: preset." in section(test)
    assert test.query_params["report_ranks"] in ("True", ["True"])


def test_what_was_counted_on_serve_is_taken_with_its_trace_and_copies() -> None:
    test = go_to(counted_on_serve(16), "share").run()
    test.toggle(key="report_ranks").set_value(True).run()
    said = (
        "as you counted them on Serve: counted on 12 sequences, 2 layers of your trace; 0 and 16 "
        "copies"
    )
    assert said in texts(test)
    part = section(test)
    assert "Origin of the counts: trace." in part
    assert "balanced, 16 copies" in part
    assert "takes the trace's routing" in part


def test_counts_of_another_scenario_are_not_taken() -> None:
    test = go_to(counted_on_serve(8), "share").run()
    test.session_state["batch_size"] = 24
    test.toggle(key="report_ranks").set_value(True).run()
    assert test.session_state["_scenario"].batch_size == 24
    assert "Experts on ranks are drawn from the routing preset's spread" in texts(test)
    assert "Origin of the counts: preset." in section(test)


@pytest.mark.parametrize(
    ("ranks", "scope"), [(None, None), ("", None), ("hash/digest/8", "session")]
)
def test_a_file_with_what_a_session_counted_stays_in_it(
    ranks: str | None, scope: str | None
) -> None:
    cache = FakeCache()

    @remembered(cache, shared=64, own=8, keys=(report_files.Extras,))
    def answer(scenario: object, extras: report_files.Extras) -> str:
        return f"{scenario} {extras.ranks}"

    answer(SHIPPED, report_files.Extras(ranks=ranks))
    assert [options.get("scope") for options in cache.calls] == [scope]


def test_ranks_that_cannot_be_are_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AdvisorError("these ranks cannot be counted")

    monkeypatch.setattr(report_files, "ranks_answer", refuse)
    test = opened("share", **(WIDE | {"batch_size": "20", "report_ranks": "True"}))
    assert "these ranks cannot be counted" in test.error[0].value
    assert BEGIN not in texts(test)
    assert "## Answer" in texts(test)
