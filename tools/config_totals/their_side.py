"""Parameters that transformers gives a model by its config, on the meta device; runs where
transformers is installed.

    python their_side.py QUESTIONS ANSWERS

QUESTIONS: JSON, configs by name. ANSWERS: JSON, by name the counts or why there are none. Nothing
is downloaded.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

ROUTED = re.compile(r"\.experts\.|\.experts$|\.routed_experts\.")
"""Parts of a name that routed experts' matrices and biases have."""
MEDIA = re.compile(r"vision|visual|audio|multi_modal|mm_projector|vit_|embed_tokens_extend")
"""Parts of a name that towers of other media have."""


def counts(config: dict) -> dict:
    """Parameters of one config's text model: all of them, of the routed experts, of the input
    embedding."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    given = {key: value for key, value in config.items() if key != "quantization_config"}
    kind = given.pop("model_type")
    if kind not in CONFIG_MAPPING:
        raise LookupError(f"transformers does not know the model_type {kind!r}")
    made = CONFIG_MAPPING[kind].from_dict(given)
    text = made.get_text_config()
    model = built(text, made)
    named = {name: each for name, each in model.named_parameters() if not MEDIA.search(name)}
    # Added to the routers' scores, and stored with them.
    named |= {name: each for name, each in model.named_buffers() if "correction_bias" in name}
    embedding = sum(each.numel() for each in model.get_input_embeddings().parameters())
    headless = model.get_output_embeddings() is None and not text.tie_word_embeddings
    return {
        "class": type(model).__name__,
        "total": sum(each.numel() for each in named.values()) + headless * embedding,
        "routed": sum(each.numel() for name, each in named.items() if ROUTED.search(name)),
        "embedding": embedding,
    }


def built(text: object, whole: object) -> object:
    """The model of a text configuration on the meta device; the whole's where that has no class of
    its own."""
    import torch
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText

    error: Exception | None = None
    for auto, config in (
        (AutoModelForCausalLM, text),
        (AutoModelForImageTextToText, whole),
        (AutoModel, text),
    ):
        try:
            with torch.device("meta"):
                # Of known classes alone: never code of a repository.
                return auto.from_config(config, trust_remote_code=False)
        except ValueError as unknown:
            if "Unrecognized configuration class" not in str(unknown):
                raise
            error = unknown
    raise LookupError(str(error))


def defaults() -> dict[str, dict]:
    """The default config of each kind that has a causal language model, with its counts, or why
    there are none."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    found: dict[str, dict] = {}
    for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        try:
            config = CONFIG_MAPPING[kind]().to_dict() | {"model_type": kind}
            found[kind] = {"config": config, **counts(config)}
        except Exception as error:  # theirs: some classes have no usable default
            found[kind] = {"error": type(error).__name__}
    return found


def main(questions: str, answers: str) -> None:
    """Answer each question by itself: one that fails is named with its error."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    with open(questions, encoding="utf-8") as file:
        asked = json.load(file)
    found: dict[str, dict] = {}
    for name, config in asked.items():
        started = time.perf_counter()
        try:
            found[name] = counts(config)
        except Exception as error:  # theirs, whatever it is: the table says it
            found[name] = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"}
        found[name]["seconds"] = round(time.perf_counter() - started, 2)
    said = {"transformers": transformers.__version__, "torch": torch.__version__, "models": found}
    said["defaults"] = defaults()
    with open(answers, "w", encoding="utf-8") as file:
        json.dump(said, file, default=str)


if __name__ == "__main__":
    main(*sys.argv[1:])
