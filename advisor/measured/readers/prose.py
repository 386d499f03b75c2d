"""Sentences with a value without drafts and one with them:
`TPOT went from 18 ms to 24 ms with MTP at concurrency 64`.

Read is what can be read in one way alone. Two numbers are a pair only where a unit says that they
are times or rates and words say which of them is with drafts; a setting only where the text states
one value of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise, product

import numpy as np

from advisor.catalog.engines import engine_called
from advisor.catalog.hardware import hardware_meant
from advisor.catalog.models import model_ids, model_meant
from advisor.measured.ingest.cells import Cells
from advisor.measured.ingest.columns import SAID, UNIT_FACTORS, drafter_name
from advisor.measured.ingest.side_by_side import ANY_RATE
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import Format, RawRows
from advisor.physics.draft import drafter_ids
from advisor.prediction import AdvisorError
from advisor.text import listed, name_key

MAX_PROSE = 8_000
"""Characters of a text that is read as sentences: longer ones are logs. [-]"""
_DRAFTS = (
    r"(?:(?:the )?(?:MTP(?:[- ]?\d)?|EAGLE(?:[- "
    r"]?\d)?|NEXTN|n-?gram|DFlash|DSpark|spec(?:ulative)?[- ]dec(?:od\w+)?"
    r"|spec(?:ulation|ulative)?|draft(?:s|ing|er)?))"
)
_END = (
    r"(?=\s*(?:[,;:.)=\n]|$|(?:and|vs|but|at|on|in|for|it|we|is|was|to|against|per|instead|rather|not|down|up|compared)\b"
    r"|K\s*=|\d))"
)
"""What follows a mark: another noun would be what was left out or added, as in
`without prefix caching`."""
_PLAIN = (
    rf"(?:(?:without|w/o|no)(?: any)?(?: {_DRAFTS})?|(?:{_DRAFTS} "
    rf")off|baseline|plain|before|K\s*=\s*0\b){_END}"
)
_OWN_K = r"\(?K\s*=\s*[1-9]\d*\b\)?"
_SPEC = (
    rf"(?:(?:(?:with|w/)(?: {_DRAFTS})?|{_DRAFTS}(?: on| enabled)?|after)(?:\s*{_OWN_K})?|(?:at "
    rf")?{_OWN_K}){_END}"
)
_ON = (
    r"\b(?:with|after|when|once|since|enabl\w+|add\w+|switch\w+|turn\w+|us(?:e|ing))"
    r"(?: (?:I|we|you|my|our|on|to|over|switch\w+|turn\w+|enabl\w+|add\w+|us(?:ed|ing)))* "
    rf"{_DRAFTS}\b"
    rf"|\b{_DRAFTS} (?:on|enabled|added)\b"
)
"""Words that say that drafts came with the change; where others say that they went, nothing is
read."""
_OFF = rf"\b(?:without|w/o|no longer|disabl\w+|off|remov\w+|drop(?:ped|ping)? {_DRAFTS})\b"
_NUMBER = r"(?<![\w.,:-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?k?"
_UNIT = (
    r"(?:ms|milliseconds?|us|µs|tok(?:en)?s?\s*(?:/|per)\s*s(?:ec(?:ond)?)?|tps|t/s|s|sec(?:onds?)?)\b"
    r"(?:\s*(?:/|per)\s*(?:output )?(?:tok(?:en)?|user|req(?:uest)?|gpu)\b)?"
)
_NO_VALUE = r"[\d.,]*\d|\s*(?:concurren|parallel|request|user|client|seq|stream|GPU|drafts|[x×]\s)"
"""What follows part of a number, or a count of other things."""
_NAME = (
    r"(?:TPOT|ITL|throughput|latency|time per output token|inter-token "
    r"latency|output|decode|generation|speed|mean|"
    r"median|average|avg)"
)
_NOT = (
    r"(?:instead of|rather than|not|(?:(?:down|up) )?from|compared "
    r"(?:to|with)|against|vs\.?|versus)"
)
"""Words between a value with drafts and the one before."""
_BETWEEN = rf"[\s,;.()]*(?:(?:and|but|only|to|then|now|{_NOT})\s+)*"
_AFTER = rf"\s*(?:{_NAME}\s+)*\(?"
_BEFORE = (
    rf"\)?\s*(?:[:=]|(?:{_NAME}|it|is|was|we|got|get|gives|gave|had|have|at|about|:|=)\s+)*\s*"
)


def _value(name: str, unit: str = "") -> str:
    return rf"(?P<{name}>{_NUMBER})(?!{_NO_VALUE})\s*(?P<{name}_unit>{_UNIT}){unit}"


def _sides(name: str, mark: str, unit: str) -> tuple[str, str]:
    """A value before its mark, and behind it."""
    value = _value(name, unit)
    return f"{value}{_AFTER}{mark}", rf"(?<!\w){mark}{_BEFORE}{value}(?:\s+{_NAME})*"


_ALONE = re.compile(_value("value"), re.IGNORECASE)
_CUT = re.compile(r"[,;]\s|\s(?:and|but|while|whereas)\s", re.IGNORECASE)
_MARKED = (("plain", _PLAIN), ("spec", _SPEC))
_PAIRS = tuple(
    re.compile(f"{first}{_BETWEEN}{second}", re.IGNORECASE)
    for earlier, later in (_MARKED, _MARKED[::-1])
    for first, second in product(_sides(*earlier, ""), _sides(*later, "?"))
)
_FURTHER = [
    re.compile(_BETWEEN + side, re.IGNORECASE)
    for side in _sides("spec", rf"(?=[^;,]*{_OWN_K}){_SPEC}", "?")
]
"""Another value with drafts behind a pair, which says its K: `, 1980 with K=3`."""
_LEFT = re.compile(
    rf"(?<!batch )(?<!concurrency )(?<!at ){_NUMBER}\s*(?:{_UNIT}|with(?:out)?\s[^,;.]{{0,20}})",
    re.IGNORECASE,
)
_CHANGES = (
    re.compile(
        rf"{_value('plain', '?')}\s*(?:(?:up |down )?to|-+>|=+>|→)\s*{_value('spec')}",
        re.IGNORECASE,
    ),
    re.compile(rf"{_value('spec')},?\s*(?:{_NOT})\s+{_value('plain', '?')}", re.IGNORECASE),
)
"""A value before drafts and one since, in either order: read where the text says that drafts were
turned on."""
_SAID_PLAIN = re.compile(
    rf"\b(?:without|w/o|off|disabled|baseline|no {_DRAFTS})\b|\bK\s*=\s*0\b", re.IGNORECASE
)
_SAID_SPEC = re.compile(
    rf"\b(?:with|w/) {_DRAFTS}\b(?! (?:is |was )?(?:off|disabled))|\b{_DRAFTS}(?: is| was)? "
    rf"(?:on|enabled)\b|{_OWN_K}"
    r"|\bit (?:is |was )?on(?=\s*(?:[.,;:]|$))",
    re.IGNORECASE,
)
_EARLIER = re.compile(r"\b(?:before|previously|used to|was|were)\b", re.IGNORECASE)
_LATER = re.compile(rf"\b(?:after(?:wards)?|now|since)\b|{_ON}", re.IGNORECASE)
_SIDES = ("plain", "spec")
_SAID = (_SAID_PLAIN, _SAID_SPEC)
_MEANT = (_EARLIER, _LATER)
"""Without drafts and with them, and the words that say so of a sentence; those of time where drafts
came between."""
_ELSE = re.compile(
    r"\b(?:whole time|all along|always|throughout|update[ds]?|upgrade[ds]?|driver|version)\b",
    re.IGNORECASE,
)
"""Words that something else may have changed."""
_OTHER = re.compile(
    r"TTFT|first "
    r"token|\bp\d\d|power|watt|\bSLO\b|target|limit|budget|goal|expect|predict|should|load(?:ing|ed)?\b|"
    r"start-?up|compil|queue|prefill|timeout",
    re.IGNORECASE,
)
"""Words of quantities that are no mean time per token, or are not measured."""
_SENTENCE = re.compile(r"(?<=[.;!?])\s+|\n+")
_METRICS = SAID.prose["times"]
_RATES = SAID.prose["rates"]
"""Metric of a pair of times or rates by the words of its sentence; without them it is asked for."""
_ABOUT = (
    r"\s*(?:of|=|:|is|was)?\s*(?:about|around|roughly|approx(?:imately|\.)?|ca\.?|some|~|≈)?\s*"
)
_WORDS = {"one": "1", "a single": "1", "two": "2", "four": "4", "eight": "8", "sixteen": "16"}
_COUNTS = {
    name: [pattern.replace("ABOUT", _ABOUT) for pattern in patterns]
    for name, patterns in SAID.prose["settings"].items()
}


@dataclass(frozen=True)
class ProsePair:
    """Two values of one sentence, with its words, and their metric (None: it is not said)."""

    values: tuple[str, str]
    metric: str | None
    words: str
    batch: str | None
    k: str | None


def pairs_of(text: str) -> list[ProsePair]:
    """Pairs of values without and with drafts that a text states. Empty where it states none for
    certain."""
    if len(text) > MAX_PROSE:
        return []
    pairs = []
    turned_on = bool(re.search(_ON, text, re.IGNORECASE)) and not re.search(
        _OFF, text, re.IGNORECASE
    )
    for sentence in _SENTENCE.split(text):
        matches = [match for pattern in _PAIRS for match in pattern.finditer(sentence)]
        for match in matches:
            before_after = re.search(r"\b(?:before|after)\b", match[0], re.IGNORECASE)
            if (before_after is None or turned_on) and (pair := _pair(match, sentence)):
                pairs += [pair, *_further(pair, match, sentence)]
        if not matches and turned_on:
            changes = (match for pattern in _CHANGES for match in pattern.finditer(sentence))
            changed_pairs = (_pair(match, sentence) for match in changes)
            pairs += [pair for pair in changed_pairs if pair]
    pairs = pairs or _of_two_sentences(text, turned_on)
    return list({(pair.values, pair.metric, pair.batch, pair.k): pair for pair in pairs}.values())


def _of_two_sentences(text: str, turned_on: bool) -> list[ProsePair]:
    """The pair of a text with two values alone, one in a sentence of each side:
    `With MTP 61 ms. Without, 52 ms.`

    turned_on : whether drafts came between the two, so that `before` and `now` are sides.
    """
    stated_values = [
        (match, sentence) for sentence in _parts(text) for match in _ALONE.finditer(sentence)
    ]
    if len(stated_values) != len(_SIDES) or _ELSE.search(text):
        return []
    sides = [_side_of(sentence, match.start(), _SAID) for match, sentence in stated_values]
    if turned_on or any(sides):
        sides = [
            side or _side_of(sentence, match.start(), _MEANT)
            for side, (match, sentence) in zip(sides, stated_values, strict=True)
        ]
    if sorted(sides) != list(_SIDES):
        return []
    by_side = dict(zip(sides, stated_values, strict=True))
    units = {side: _unit(match["value_unit"]) for side, (match, _) in by_side.items()}
    both_sentences = " ".join(sentence for _, sentence in stated_values)
    if _OTHER.search(both_sentences) or (units["plain"] == "/s") != (units["spec"] == "/s"):
        return []
    metric = _metric(both_sentences, units["plain"] == "/s")
    (_, first_sentence), (_, last_sentence) = stated_values
    start = text.find(first_sentence)
    end = text.find(last_sentence) + len(last_sentence)
    words = " ".join(text[start:end].split())
    plain = _in_unit(by_side["plain"][0]["value"], units["plain"], metric)
    spec = _in_unit(by_side["spec"][0]["value"], units["spec"], metric)
    return [
        ProsePair(
            (plain, spec), metric, words, _only("batch_size", text), _only("draft_tokens_k", text)
        )
    ]


def _parts(text: str) -> Iterator[str]:
    """Sentences, those with two values cut between them."""
    for sentence in _SENTENCE.split(text):
        ends = [match.span() for match in _ALONE.finditer(sentence)]
        cuts = _CUT.finditer(sentence, ends[0][1], ends[1][0]) if len(ends) == 2 else ()
        cut = max((at.start() for at in cuts), default=0)
        yield from (sentence[:cut], sentence[cut:])


def _side_of(sentence: str, at: int, words: tuple[re.Pattern[str], ...]) -> str:
    """Which of `_SIDES` the words around the value at `at` say, else those of its sentence. Empty
    without any."""
    start = max((cut.end() for cut in re.finditer(r"[,;:]\s", sentence[:at])), default=0)
    for part in (sentence[start:], sentence):
        if sides := [
            side for side, pattern in zip(_SIDES, words, strict=True) if pattern.search(part)
        ]:
            return sides[0] if len(sides) == 1 else ""
    return ""


def _further(pair: ProsePair, match: re.Match[str], sentence: str) -> Iterator[ProsePair]:
    """The plain value of a pair beside each value of another K that follows."""
    unit = match["spec_unit"] or match["plain_unit"]
    at = match.end()
    while following := next(
        filter(None, (pattern.match(sentence, at) for pattern in _FURTHER)), None
    ):
        at = following.end()
        words = " ".join(following[0].split()).lstrip(",; ")
        value = _in_unit(following["spec"], _unit(following["spec_unit"] or unit), pair.metric)
        yield replace(
            pair, values=(pair.values[0], value), words=words, k=_only("draft_tokens_k", words)
        )


def _in_unit(number: str, unit: str, metric: str | None) -> str:
    """A number as text: rates as they are, times in the unit of their metric, else in ms."""
    digits = number.lower().replace(",", "")
    value = float(digits.rstrip("k")) * (1e3 if digits.endswith("k") else 1.0)
    wanted = UNIT_FACTORS["s" if str(metric).endswith("_s") else "ms"]
    factor = 1.0 if unit == "/s" else UNIT_FACTORS[unit] / wanted
    return f"{value * factor:.9g}"


def _pair(match: re.Match[str], sentence: str) -> ProsePair | None:
    """The pair of a match in its sentence. None where its values differ in kind, or are of another
    quantity."""
    clause = (
        re.split(r"[;,](?!\d)", sentence[: match.start()])[-1]
        + match[0]
        + sentence[match.end() :][:25]
    )
    units = [
        _unit(match[f"{side}_unit"] or match["plain_unit"] or match["spec_unit"])
        for side in ("plain", "spec")
    ]
    if _OTHER.search(clause) or (units[0] == "/s") != (units[1] == "/s"):
        return None
    metric = _metric(clause, units[0] == "/s")
    plain = _in_unit(match["plain"], units[0], metric)
    spec = _in_unit(match["spec"], units[1], metric)
    batch = _only("batch_size", sentence)
    k = _only("draft_tokens_k", match[0])
    return ProsePair((plain, spec), metric, " ".join(match[0].split()), batch, k)


def _metric(words: str, is_rate: bool) -> str | None:
    """Metric of a pair by the words around it. None where they leave that of times open."""
    patterns_by_metric = _RATES if is_rate else _METRICS
    metrics = [
        name
        for name, patterns in patterns_by_metric.items()
        if re.search("|".join(patterns), words, re.IGNORECASE)
    ]
    return metrics[0] if len(metrics) == 1 else ANY_RATE if is_rate else None


_SHARE = re.compile(rf"accept(?:ance|ed|) rate{_ABOUT}(\d+(?:\.\d+)?\s*%|0?\.\d+\b)", re.IGNORECASE)


def unread_text(text: str) -> str:
    """Sentence on an acceptance rate in a text, which no one length follows from. Empty without
    one."""
    if len(text) > MAX_PROSE or (match := _SHARE.search(text)) is None:
        return ""
    share = float(match[1].rstrip("% ")) / (100.0 if "%" in match[1] else 1.0)
    k = _only("draft_tokens_k", text)
    length = (
        f"1 + {share:.3g} K tokens"
        if k is None
        else f"1 + {share:.3g} x {k} = {1 + share * int(k):.2f} tokens"
    )
    return (
        f"Not read: {match[0]}. Say the accepted length; it is {length} if the rate is of all "
        "drafted tokens, as in vLLM's log."
    )


_SLOWER = (
    r"\b(?:slow\w*|worse\w*|regress\w*|degrad\w*|no (?:gain|speed-?up|faster)|not "
    r"(?:faster|better))\b"
)


def complaint_of(text: str) -> dict[str, str] | None:
    """Settings and names by column in a text that calls a server slow without a pair of values.
    None of any other."""
    if len(text) > MAX_PROSE or not re.search(_SLOWER, text, re.IGNORECASE) or pairs_of(text):
        return None
    return said_in(text)


def said_in(text: str) -> dict[str, str]:
    """Settings and names by column that a text states, each where it states one alone."""
    settings = ((name, _only(name, text)) for name in _COUNTS)
    return _names(text) | {name: value for name, value in settings if value is not None}


def _unit(text: str) -> str:
    """`/s`, or a unit of time by our name."""
    word = re.split(r"[\s/]", text.strip().lower())[0]
    return (
        "/s"
        if word[0] == "t"
        else "ms"
        if word[0] == "m"
        else word
        if word in UNIT_FACTORS
        else "s"
    )


def _only(name: str, text: str) -> str | None:
    """The one value that a text states of a setting. None where it states none, or several.

    A command's options are not of the text: `--cuda-graph-max-bs 16` is no batch.
    """
    text = re.sub(r"(?<!\S)--[a-z][\w-]*(?:[ =]\S+)?", " ", text)
    values = {
        value.lower()
        for pattern in _COUNTS[name]
        for value in re.findall(pattern, text, re.IGNORECASE)
    }
    values = {_WORDS.get(value, value) for value in values}
    return values.pop() if len(values) == 1 else None


def _names(text: str) -> dict[str, str]:
    """Drafter, engine, model and accelerator that a text names, each where it names one alone."""
    apart = re.sub(r"(?<=\d)\s*[x×](?=[A-Z])", " ", text)  # 2xH100
    words = [word.rstrip(".-") for word in re.findall(r"[A-Za-z][\w.+-]*(?:/[\w.-]+)?", apart)]
    words = [re.sub(r"(?<=\d)s$", "", word) for word in words]  # two H100s
    drafters = {drafter_name(word) for word in re.findall(_DRAFTS, text, re.IGNORECASE)}
    engines = (engine_called(word) for word in words)
    phrases = [*words, *(f"{first}-{second}" for first, second in pairwise(words))]
    models = (_model(phrase) for phrase in phrases if re.search(r"[\d-]", phrase))
    chips = (hardware_meant(word) for word in words if re.search(r"\d", word))
    ids_by_column = {
        "drafter": drafters & set(drafter_ids()),
        "engine": {engine.id for engine in engines if engine is not None},
        "model_id": {model for model in models if model},
        "hardware_id": {chip for chip in chips if chip},
    }
    return {column: ids.pop() for column, ids in ids_by_column.items() if len(ids) == 1}


def _model(word: str) -> str | None:
    """Id of the model that a word names, as a checkpoint or by how one id alone begins
    (`Qwen3-Next`)."""
    candidates = [
        model_id for model_id in model_ids() if name_key(model_id).startswith(f"{name_key(word)}_")
    ]
    return model_meant(word) or (candidates[0] if len(candidates) == 1 else None)


def detect(sample: Sample) -> float:
    """0.5 for a text in which a pair stands: less than any tool's own format."""
    return 0.5 if sample.kind == "text" and pairs_of(sample.text) else 0.0


def read(sample: Sample) -> RawRows:
    """Read one row per pair of values. Raises AdvisorError where neither concurrency nor K tells
    several pairs apart.

    Of one concurrency, the time per token stands before other times and rates.
    """
    text = sample.text
    pairs = pairs_of(text)
    rank = {"tpot_ms": 0, "step_time_ms": 1}
    best = min((rank.get(str(pair.metric), 2) for pair in pairs), default=2)
    best_pairs = [pair for pair in pairs if rank.get(str(pair.metric), 2) == best]
    if (
        len({(pair.batch, pair.k) for pair in best_pairs}) < len(best_pairs)
        or len({pair.metric for pair in best_pairs}) > 1
    ):
        raise AdvisorError(
            f"{sample.name} states several pairs of values "
            f"({listed([pair.words for pair in best_pairs[:4]])}); keep one, or give each a "
            "sentence with its concurrency or its K"
        )
    raw = RawRows("points", np.arange(1, len(best_pairs) + 1), {})
    words = [pair.words for pair in best_pairs]
    for place, name in enumerate(("baseline_value", "sd_value")):
        raw.cells[name] = Cells(
            [pair.values[place] for pair in best_pairs], words if len(best_pairs) > 1 else words[0]
        )
    if best_pairs[0].metric is not None:
        raw.constant("metric", best_pairs[0].metric, words[0])
    for name in _COUNTS:
        if value := _only(name, text):
            raw.constant(name, value, f"{name} {value}")
    if any(pair.batch for pair in best_pairs[1:]):
        raw.cells["batch_size"] = Cells([pair.batch for pair in best_pairs], "concurrency")
    if any(pair.k for pair in best_pairs):
        other = (
            _only("draft_tokens_k", text)
            if len({pair.batch for pair in best_pairs}) == len(best_pairs)
            else None
        )
        raw.cells["draft_tokens_k"] = Cells([pair.k or other for pair in best_pairs], "K")
    for name, value in _names(text).items():
        raw.constant(name, value, value)
    if "batch_size" not in raw.cells and (sent := re.findall(r"\b(\d{1,4}) requests\b", text)):
        raw.prefill["batch_size"] = int(sent[0])  # at a time, or in all: it is asked
    version = re.search(r"\bMTP[- ]?(\d)\b", text, re.IGNORECASE)
    if version and "draft_tokens_k" not in raw.cells:
        raw.prefill["draft_tokens_k"] = int(version[1])
    remarks = [
        f"{pair.words!r} is read as {pair.values[0]} without drafts and {pair.values[1]} with them"
        for pair in best_pairs
    ]
    remarks += [f"not used beside it: {pair.words!r}" for pair in pairs if pair not in best_pairs]
    raw.notes.append("; ".join(remarks))
    rest = reduce(lambda rest, pair: rest.replace(pair.words, ";"), pairs, " ".join(text.split()))
    left = [repr(words) for words in _LEFT.findall(rest)]
    raw.warnings += filter(None, [unread_text(text), f"not read: {listed(left)}" if left else ""])
    return raw


PROSE = Format("prose", "sentences with a value without and with drafts", detect, read)
