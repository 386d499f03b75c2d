"""The page of questions, each with the command that answers it and the lines that do:
`python -m tests.golden.questions_page` writes docs/questions.md."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.golden.terminal import ROOT, in_a_folder, printed

PAGE = ROOT / "docs" / "questions.md"
COLUMNS = 130
_SHORT = 60
"""A line up to here is not wrapped. [characters]"""


class Question(NamedTuple):
    """A question, its command, and how each line of the answer begins."""

    text: str
    command: str
    answers: tuple[str, ...]


_QWEN = "qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 2.4@3"
GROUPS: dict[str, tuple[Question, ...]] = {
    "Which K": (
        Question(
            "How many tokens do I draft for this model, GPU and load?",
            "advise gpt-oss-20b --gpus 1xB200 --batch 16",
            ("Draft", "80% range"),
        ),
        Question(
            "Which K at concurrency 1, and which at 16?",
            "explore qwen3.6-35b-a3b --gpus 1xH200 --vary batch=1,16",
            ("batch", "1 ", "16 "),
        ),
        Question(
            "From which batch on do I draft less, or nothing?",
            "schedule command-a-plus --gpus 4xH200 --weight-dtype fp8",
            ("batch", "1 to", "K by batch", "One K"),
        ),
        Question(
            "Does K change with the context?",
            f"schedule {_QWEN} --contexts 1k,16k,64k",
            ("batch", "1 to", "K hardly"),
        ),
        Question(
            "Which K under a limit of 9 ms per token?",
            f"advise {_QWEN} --max-tpot-ms 9",
            ("Draft", "80% range", "At 9", "Over"),
        ),
        Question(
            "Would a K that follows the acceptance (Cascade) beat a fixed one?",
            f"simulate {_QWEN} --iterations 200 --requests 40",
            ("policy", "static K=3", "schedule", "Cascade", "cascade", "oracle"),
        ),
    ),
    "Which drafter, with which length": (
        Question(
            "Which drafter is fastest for this model, each with its own accepted lengths?",
            "explore gpt-oss-20b --gpus 1xB200 --vary drafter",
            ("drafter ", "EAGLE", "P-EAGLE", "DFlash", "DSpark"),
        ),
        Question(
            "Which drafter does Kimi-K3 ship with, and what does it bring?",
            "advise kimi-k3 --gpus 8xB300 --batch 8",
            ("Kimi", "Draft", "80% range"),
        ),
        Question(
            "MTP, DFlash or another head at prompts of 64k?",
            "explore qwen3.6-35b-a3b --gpus 1xH200 --context 64k --batch 4 --vary drafter",
            ("drafter ", "Own MTP", "EAGLE", "DFlash"),
        ),
        Question(
            "Is my accepted length normal?",
            "advise qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 1.9@3 -v",
            ("Your accepted length",),
        ),
        Question(
            "Can 4.5 tokens be accepted at K = 3?",
            "advise qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 4.5@3",
            ("error",),
        ),
        Question(
            "Below which accepted length do I draft less?",
            "advise qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 1.9@3",
            ("Change K when",),
        ),
    ),
    "What it costs": (
        Question(
            "How much of the KV cache does the drafter take, and how many requests is that?",
            "advise qwen3-235b-a22b --gpus 8xH200 --context 64k --batch 16 -v",
            ("The drafter leaves", "Its weights"),
        ),
        Question(
            "With a shared prefix, how many requests fit?",
            "advise kimi-k3 --gpus 8xB300 --context 80k --shared-prefix 64k --batch 32 -v",
            ("The drafter leaves", "Requests share", "Its weights"),
        ),
        Question(
            "My engine logs 178,880 KV tokens with its drafter: what fits?",
            "advise qwen3-235b-a22b --gpus 4xH100 --weight-dtype fp8 --context 8k --batch 16 "
            "--kv-cache-tokens-with-drafter 178880 -v",
            ("The drafter leaves",),
        ),
        Question(
            "Does it fit at all, and on how many GPUs?",
            "advise deepseek-v3 --gpus 1xH200",
            ("Does not fit", "Needs"),
        ),
        Question(
            "How many experts does a verification load, and what does a round cost?",
            f"explain {_QWEN} --batch 16 --k 3",
            ("U = U(", "R = T_verify", "TPOT = "),
        ),
    ),
    "Why is it slow": (
        Question(
            "52 ms per token without drafts, 61 with: what is wrong?",
            "diagnose --without 52ms --with 61ms --k 3 --batch 64 --model qwen3-235b-a22b "
            "--gpus 8xH100 --engine vllm",
            ("Your baseline", "Turn speculation"),
        ),
        Question(
            "Can a claim of 4 ms instead of 30 at K = 3 be right?",
            "diagnose --without 30ms --with 4ms --k 3 --batch 1 --model gpt-oss-20b --gpus 1xH200",
            ("Measure again",),
        ),
        Question(
            "What if its rounds run in piecewise CUDA graphs?",
            f"advise {_QWEN} --graph-mode pieces",
            ("Draft", "Turn", "80% range"),
        ),
    ),
    "Which server, which model": (
        Question(
            "vLLM or SGLang?",
            "explore qwen3-30b-a3b --gpus 1xH200 --vary engine=vllm,sglang",
            ("engine", "vllm", "sglang", "Most tokens"),
        ),
        Question(
            "H200 or B200?",
            "explore deepseek-v3 --vary gpus=8xH200,8xB200 --vary batch=64",
            ("hardware", "h200", "b200", "Most tokens"),
        ),
        Question(
            "Does the MoE gain more than its dense sibling?",
            "explore command-a-plus command-a --gpus 4xH200 --weight-dtype fp8 --batch 64",
            ("Speedup", "Gains most at", "command-a-plus"),
        ),
        Question(
            "Which launch flags?",
            f"export {_QWEN} --engine vllm --output out --draft-model a/b",
            ("vllm serve", "--spec", "wrote", "Launch"),
        ),
        Question(
            "vLLM can choose at each step what it verifies: do I still need a K?",
            "advise deepseek-v4-pro --gpus 8xB300 --drafter dspark --batch 64 -v",
            ("vLLM 0.33.0 can choose",),
        ),
        Question(
            "How sparse should the next model be?",
            "design --gpus 1xB200 --batch 64 --target-total 40B",
            ("Build", "Keep"),
        ),
    ),
}


def answer_lines(question: Question) -> list[str]:
    """Lines of the answer that begin as the question says, each with the rest of its sentence."""
    lines: list[str] = []
    is_open = False
    for line in printed(question.command).splitlines():
        starts = line.lstrip().startswith(question.answers)
        is_prose = "  " not in line.strip()
        if starts or (is_open and line.strip() and is_prose):
            lines.append(line)
            is_open = is_prose and len(line) > _SHORT and not re.search(r"[.:\d]$", line)
        else:
            is_open = False
    return lines


def page() -> str:
    """The page."""
    parts = [
        "# Questions, and the command that answers each",
        "Questions that people ask in public threads. Below each command stand the lines that "
        "answer it, as printed; `python -m tests.golden.questions_page` writes them.",
    ]
    with in_a_folder(COLUMNS):
        for group, questions in GROUPS.items():
            parts.append(f"## {group}")
            for question in questions:
                answer = "\n".join(f"    {line}" for line in answer_lines(question))
                parts.append(f"**{question.text}**\n\n    advisor {question.command}\n\n{answer}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
