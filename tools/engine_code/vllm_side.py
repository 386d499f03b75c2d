"""Runs in a process of its own, with vLLM's unpacked wheel first on the path: exports in as JSON,
findings out."""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from types import SimpleNamespace
from typing import Any, get_args

from tools.engine_code import stubs

OWN = ("vllm.ir",)
"""Modules of vLLM itself that are stubbed: they register GPU operators."""


class _Config(SimpleNamespace):
    """A Hugging Face configuration as far as vLLM's override of it looks."""

    def update(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def get_text_config(self) -> _Config:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("text_config", "quantization_config"):
            raise AttributeError(name)
        return None


def main() -> None:
    stubs.install("vllm", OWN)
    import vllm.platforms as platforms
    from vllm.platforms.interface import UnspecifiedPlatform

    platform = UnspecifiedPlatform()
    platform.device_type = "cpu"
    platforms._current_platform = platform
    import vllm.config.speculative as speculative
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    done = []
    asked = json.load(sys.stdin)
    for export in asked["exports"]:
        found: list[str] = []
        try:
            words = shlex.split(export["launch_line"])
            given = parser.parse_args(["--model", words[2], *words[3:]])
            found.append("arguments parsed")
            config = given.speculative_config
            if config != export["config"]:
                raise ValueError(f"the parsed configuration differs: {config}")
            if config is not None:
                found += _check_config(speculative, dict(config), export)
            table = (config or {}).get("num_speculative_tokens_per_batch_size")
            if table:
                last = table[-1][1]
                dense = build_dynamic_sd_schedule_lookup(
                    table, last, config["num_speculative_tokens"]
                )
                if dense[1:] != export["k_by_batch"][:last]:
                    raise ValueError("the expanded table is not the schedule")
                found.append(f"table of {last} batches equals the schedule")
            done.append({"name": export["name"], "ok": True, "found": found})
        except (Exception, SystemExit) as error:  # whatever the engine's code raises is the finding
            said = f"{type(error).__name__}: {error}"[:300]
            done.append({"name": export["name"], "ok": False, "found": [*found, said]})
            if os.environ.get("SHOW_TRACEBACK"):
                traceback.print_exc()
    methods = [name for name in _names(speculative.SpeculativeMethod) if isinstance(name, str)]
    families = {
        family: _runs_mtp(speculative, config) for family, config in asked["families"].items()
    }
    json.dump(
        {"results": done, "methods": methods, "families": families, "stubs": sorted(stubs.USED)},
        sys.stdout,
    )


def _names(literal: Any) -> list[Any]:
    """The values of nested Literals."""
    inner = get_args(literal)
    return [name for one in inner for name in (_names(one) or [one])]


def _runs_mtp(speculative: Any, config: dict[str, Any]) -> bool:
    """Whether vLLM makes an MTP draft model of a configuration."""
    try:
        made = speculative.SpeculativeConfig.hf_config_override(_described(config))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False
    return made.model_type in get_args(speculative.MTPModelTypes) and made.model_type != config.get(
        "model_type"
    )


def _described(config: dict[str, Any]) -> _Config:
    """A configuration and what is nested in it."""
    values = {
        name: _described(value) if name == "text_config" else value
        for name, value in config.items()
    }
    unstated = {
        "architectures": ["SomeForCausalLM"],
        "hc_count": 1,
    }  # of what a profile leaves out, what is read
    return _Config(**{**unstated, **values})


def _check_config(speculative: Any, config: dict[str, Any], export: dict[str, Any]) -> list[str]:
    """SpeculativeConfig with the checks of its construction; draft model and target are described,
    not loaded."""
    hf = _Config(
        model_type=export["model_type"],
        architectures=[export["architecture"]],
        num_nextn_predict_layers=1,
    )
    speculative.ModelConfig = _Model
    target = _Model(model=export["model"], hf_config=hf)
    made = speculative.SpeculativeConfig(
        **config, target_model_config=target, target_parallel_config=speculative.ParallelConfig()
    )
    if (
        made.method != config["method"]
        or made.num_speculative_tokens != config["num_speculative_tokens"]
    ):
        raise ValueError(f"it became {made.method} with {made.num_speculative_tokens} tokens")
    return ["SpeculativeConfig constructed"]


class _Model(SimpleNamespace):
    """A model's configuration in place of vLLM's own, which would download it: the one stub of its
    classes."""

    def __init__(self, hf_overrides: Any = None, hf_config: Any = None, **given: Any) -> None:
        known = {
            "model": "",
            "tokenizer": "",
            "max_model_len": 8192,
            "enforce_eager": False,
            "is_moe": True,
        }
        super().__init__(
            **{**known, **{name: value for name, value in given.items() if value is not None}}
        )
        config = hf_config or _LAST[-1]
        _LAST.append(config)
        copied = _Config(**config.__dict__)
        self.hf_config = self.hf_text_config = (
            hf_overrides(copied) if callable(hf_overrides) else copied
        )
        self.architectures = list(self.hf_config.architectures)
        self.registry = SimpleNamespace(
            inspect_model_cls=lambda *_: (SimpleNamespace(), self.architectures[0])
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith(("get_", "using_", "verify_", "is_")):
            return lambda *_, **__: 32000 if name == "get_vocab_size" else False
        return None


_LAST: list[Any] = []
"""The target's configuration, which an MTP draft model shares."""


if __name__ == "__main__":
    main()
