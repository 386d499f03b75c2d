// What both components of the page need: what outlives them.

/** What outlives a component that Streamlit puts up anew: axis, pinned K, the last thing shown, and the batch of the last answer taken (benchmarks wait for it). */
const KEPT = (window.moeLive ??= { axis: "speedup", pinned: null, last: null, taken: null });

/** A table of rows that `row` makes; without heads it has none. */
const grid = (heads, rows) => node("table", {}, heads.length ? node("thead", {}, node("tr", {}, heads.map((one) => node("th", { scope: "col" }, one)))) : "", node("tbody", {}, rows));
const row = (css, head, ...cells) => node("tr", { class: css }, node("th", { scope: "row" }, head), cells.map((one) => node("td", {}, one)));

const named = (k) => (k ? `K = ${k}` : "no drafts");
