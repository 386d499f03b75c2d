"""A config.json of one's own: a small Mixtral that no profile describes."""

import json

CONFIG = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 1024}
CONFIG |= {
    "intermediate_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
}
CONFIG |= {
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
CONFIG_JSON = json.dumps(CONFIG)
