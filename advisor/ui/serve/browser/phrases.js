// How a sentence is said: the filler of show/phrases/book.py once more. tests/e2e/test_live_answer.py holds the two together.

const even = (value) => { const low = Math.floor(value); return value - low === 0.5 ? low + (low % 2) : Math.round(value); };
/** A value as many decimals round it in Python: a tie, which is exact in binary alone, goes to the even digit. */
const settled = (value, decimals) => (Number.isInteger(value * 2 ** (decimals + 1)) ? even(value * 10 ** decimals) / 10 ** decimals : value);
const fixed = (value, decimals) => settled(value, decimals).toFixed(decimals);
const percent = (share) => `${even(100 * share)}%`;
const whole = (value) => even(value).toLocaleString("en");
const plural = (value, word) => `${value.toLocaleString("en")} ${word}${value === 1 ? "" : "s"}`;

/** Three digits, as Python's `#.3g` has them. */
function digits(value) {
  const size = Math.abs(value);
  return size > 0 && size < 1000 ? settled(value, 2 - Math.floor(Math.log10(size))).toPrecision(3).replace(/e.*/, "") : whole(value);
}

const FORMS = {
  "": String,
  x: (value) => `${fixed(value, 2)}×`,
  x2: (value) => fixed(value, 2),
  1: (value) => fixed(value, 1),
  3: digits,
  g: (value) => String(+value.toPrecision(6)),
  int: whole,
  pct: percent,
  pct1: (value) => `${(+fixed(100 * value, 1) + 0).toFixed(1)}%`,
  chance: (value) => percent(Math.min(value, 0.99)),
  tokens: (value) => plural(value, "token"),
  drafts: (value) => plural(value, "draft"),
  runs: (value) => plural(value, "published run"),
  gpus: (value) => plural(value, "GPU"),
};
const COMPARED = {
  "==": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
};
const missing = (value) => value == null;

/** Whether a flag holds of a record's facts. */
function holds(book, flag, facts) {
  const [name, comparison, bound] = book.flags[flag], value = facts[name];
  if (comparison === "known" || comparison === "unknown") return missing(value) === (comparison === "unknown");
  const against = typeof bound === "string" && bound in facts ? facts[bound] : bound;
  return !missing(value) && !missing(against) && COMPARED[comparison](value, against);
}

/** The sentence of a slot, `*` around what is colored: the first phrase whose flags hold; empty where none does. */
function say(book, slot, facts) {
  const of = (words) => words.split(" ").filter(Boolean).every((word) => (word[0] === "!" ? !holds(book, word.slice(1), facts) : holds(book, word, facts)));
  const told = (name) => {
    const phrase = book.phrases.find(([its, when]) => its === name && of(when));
    return phrase ? phrase[2].replace(/\{(\w+)(?::(\w+))?\}/g, (_, name, form) => (name in facts ? FORMS[form || ""](facts[name]) : told(name))) : "";
  };
  return told(slot).replace(/\s+/g, " ").trim();
}
