"""Stand-ins for the workloads of arXiv:2506.20675, whose acceptance traces are not published.

Published: tasks code (HumanEval), math (GSM8K), extraction (MT-Bench) and four equal mixes of them; n-gram drafts on
every model; on Mixtral with K = 7 an ETR of 3.2 in the best task, every K > 0 losing on math and on extraction.

Assumed: an n-gram drafter is either copying (conditional acceptance 0.9) or not (0.08); copying passages are 40 tokens
long on average; the share of tokens inside them sets the task. Two shares are chosen to meet a published number each,
and prove nothing about it: code yields ETR 3.2 at K = 7, and math the 26 % slowdown of K = 1 on a purely memory-bound
Mixtral. Extraction lies between. The slowdowns at K = 2 and 3, Cascade's own, and the gains then follow. Nothing here
is a measurement. Every round carries K drafts, where a real n-gram drafter proposes none without a match; that makes
losing rounds dearer than in the engine.
"""

from __future__ import annotations

from advisor.runtime import AcceptanceProcess, Mixture, Switching

COPYING_ACCEPTANCE = 0.9
OTHER_ACCEPTANCE = 0.08
COPYING_TOKENS = 40.0
COPYING_SHARE = {"code": 0.77, "math": 0.3, "extraction": 0.5}


def ngram_task(copying_share: float, k_max: int = 7) -> Switching:
    """Acceptance of n-gram drafts when a share of the output tokens repeat earlier text.

    `copying_share` is that share.
    """
    other_tokens = COPYING_TOKENS * (1 - copying_share) / copying_share
    return Switching((COPYING_ACCEPTANCE,) * k_max, (OTHER_ACCEPTANCE,) * k_max, COPYING_TOKENS, max(1.0, other_tokens))


def ngram_workloads(k_max: int = 7) -> dict[str, AcceptanceProcess]:
    """The seven workloads by name: three tasks and their four equal mixes, one task per request."""
    task: dict[str, AcceptanceProcess] = {name: ngram_task(share, k_max) for name, share in COPYING_SHARE.items()}
    mixes = (("code", "math"), ("math", "extraction"), ("code", "extraction"), ("code", "math", "extraction"))
    mixed = {"+".join(names): Mixture(tuple(task[n] for n in names), (1.0,) * len(names)) for names in mixes}
    return {**task, **mixed}
