// What both components of the page need: what outlives them, and how an element is made.

/** What outlives a component that Streamlit puts up anew: axis, pinned K, the last thing shown, and the batch of the last answer taken (benchmarks wait for it). */
const KEPT = (window.moeLive ??= { axis: "speedup", pinned: null, last: null, taken: null });

/** `attributes` by name, or a class alone. */
function filled(made, attributes, children) {
  if (attributes.at) attributes = { class: attributes };
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  made.append(...children.flat());
  return made;
}

const node = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);

const button = (css, said, onclick, more = {}) => node("button", { class: css, onclick, ...more }, said);

/** A table of rows that `row` makes; without heads it has none. */
const grid = (heads, rows) => node("table", {}, heads.length ? node("thead", {}, node("tr", {}, heads.map((one) => node("th", { scope: "col" }, one)))) : "", node("tbody", {}, rows));
const row = (css, head, ...cells) => node("tr", { class: css }, node("th", { scope: "row" }, head), cells.map((one) => node("td", {}, one)));

const named = (k) => (k ? `K = ${k}` : "no drafts");
