"""The scenario's arguments, the same for every command that takes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.adjustment import parse_adjustment
from advisor.drafter import load_acceptance_curve
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario, build_scenario

MAX_CONFIG_BYTES = 5_000_000
MAX_REFIT_BYTES = 4096

SCENARIO_OPTIONS = [
    click.Option(["--hardware", "hardware_id"], required=True, help="Accelerator id; see `advisor hardware`."),
    click.Option(["--gpus", "n_gpus"], type=int, help="GPUs in all [default: what tp and ep need]."),
    click.Option(["--tp", "tensor_parallel"], type=int, default=1, show_default=True, help="Tensor-parallel ranks."),
    click.Option(["--ep", "expert_parallel"], type=int, default=1, show_default=True, help="Expert-parallel ranks."),
    click.Option(["--model"], required=True, help="Model id (see `advisor models`) or a path to a config.json."),
    click.Option(
        ["--batch", "batch_size"], type=int, default=16, show_default=True, help="Sequences decoding together."
    ),
    click.Option(
        ["--context", "context_tokens"], type=int, default=2048, show_default=True, help="Cached tokens each."
    ),
    click.Option(["--drafter", "drafter_id"], required=True, help="Drafter id, e.g. eagle3, mtp, ngram."),
    click.Option(["--accepted-length"], help="X@K: X tokens per round measured at K drafted tokens, e.g. 2.73@3."),
    click.Option(["--acceptance"], help="a1,a2,...: chance that draft token i is accepted, given the ones before it."),
    click.Option(["--acceptance-preset"], help="Id of a measured acceptance curve."),
    click.Option(
        ["--engine"],
        type=click.Choice(["vllm", "sglang", "trtllm", "other"]),
        default="vllm",
        show_default=True,
        help="Serving engine; sets kernels and overheads.",
    ),
    click.Option(["--k-max"], type=int, default=8, show_default=True, help="Longest draft to consider."),
    click.Option(["--weight-dtype"], help="Format of all matrix weights [default: as the checkpoint stores them]."),
    click.Option(["--expert-dtype"], help="Format of the routed experts alone, e.g. mxfp4."),
    click.Option(
        ["--kv-dtype"], type=click.Choice(["bf16", "fp8"]), default="bf16", show_default=True, help="KV cache."
    ),
    click.Option(["--routing"], default="auto", show_default=True, help="Routing preset id, `uniform`, or `auto`."),
    click.Option(["--input-tokens"], type=int, help="Prompt length; with --output-tokens, prefill is charged."),
    click.Option(["--output-tokens"], type=int, help="Output length."),
    click.Option(["--max-tpot-ms"], type=float, help="Limit on time per output token, milliseconds."),
    click.Option(["--refit"], help="Predict with your own measurements: a file that `fit --out` wrote, or its text."),
]


class ScenarioCommand(click.Command):
    """A command that takes the scenario's options and hands its function one `scenario` instead of them."""

    def __init__(self, *args: Any, params: list[click.Parameter] | None = None, **kwargs: Any) -> None:
        kwargs["params"] = [*SCENARIO_OPTIONS, *(params or [])]
        super().__init__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Build the scenario, then run. Raises AdvisorError for a scenario that cannot be."""
        values = {option.name: ctx.params.pop(option.name) for option in SCENARIO_OPTIONS if option.name}
        ctx.params["scenario"] = scenario_from(values)
        return super().invoke(ctx)


def scenario_from(values: dict[str, Any]) -> Scenario:
    """Scenario from option values. Raises AdvisorError with what to give when something is missing or wrong."""
    given = [values.pop(name, None) for name in ("accepted_length", "acceptance", "acceptance_preset")]
    stated = [text for text in given if text is not None]
    if len(stated) > 1:
        raise AdvisorError("give one of --accepted-length, --acceptance, --acceptance-preset, not several")
    _check_acceptance_flags(*given)
    drafter = values.get("drafter_id")
    if not stated and drafter != "none":
        raise AdvisorError(
            "how much is accepted is missing; give --accepted-length X@K (e.g. 2.73@3), --acceptance a1,a2,... or "
            "--acceptance-preset ID"
        )
    values["acceptance"] = stated[0] if stated else "0"
    model = values.pop("model")
    if model.endswith(".json") or Path(model).exists():
        values["model_config_json"] = read_config(Path(model))
        values["model_id"] = Path(model).stem if Path(model).stem != "config" else Path(model).resolve().parent.name
    else:
        values["model_id"] = model
    if values.get("refit") is not None:
        values["refit"] = _refit_text(values["refit"])
    if values.get("n_gpus") is None:
        values["n_gpus"] = max(values.get("tensor_parallel", 1), values.get("expert_parallel", 1))
    return build_scenario(**{name: value for name, value in values.items() if value is not None})


def _check_acceptance_flags(accepted_length: str | None, acceptance: str | None, preset: str | None) -> None:
    """Each flag takes its own form, so that a slip of one is not silently read as another."""
    if accepted_length is not None and "@" not in accepted_length:
        raise AdvisorError(
            f"--accepted-length {accepted_length!r} is not X@K, e.g. 2.73@3: 2.73 tokens per round at K = 3"
        )
    if acceptance is not None and ("@" in acceptance or not any(letter.isdigit() for letter in acceptance)):
        raise AdvisorError(f"--acceptance {acceptance!r} is not a list of probabilities, e.g. 0.7,0.5,0.4")
    if preset is not None:
        load_acceptance_curve(preset)


def _refit_text(given: str) -> str:
    """The text of a refit, given itself or as a file. Raises AdvisorError when it is neither."""
    text = given
    if not given.startswith("on="):
        try:
            text = Path(given).read_bytes()[:MAX_REFIT_BYTES].decode("utf-8", errors="replace")
        except OSError as error:
            raise AdvisorError(
                f"cannot read {given}: {error.strerror or error}; write a refit with `advisor fit RESULT --out FILE`"
            ) from error
    if not text.startswith("on="):
        raise AdvisorError(f"{given} is no refit; make one of a benchmark result with `advisor fit RESULT --out FILE`")
    parse_adjustment(text)
    return text.strip()


def read_config(path: Path) -> str:
    """Text of a config.json, or of the one in a folder. Raises AdvisorError when it is absent, huge or not text."""
    path = path / "config.json" if path.is_dir() else path
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise AdvisorError(
                f"{path} has {path.stat().st_size:,} bytes; a config.json has at most {MAX_CONFIG_BYTES:,}"
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise AdvisorError(
            f"cannot read {path}: {error.strerror}; give a model id or a path to a config.json"
        ) from error
    except UnicodeDecodeError as error:
        raise AdvisorError(f"{path} is not a text file; give the model's config.json") from error
