// What both components of the page need: what outlives them, and how an element is made.

/** What outlives a component that Streamlit puts up anew: axis, pinned K, the last thing shown, and the batch of the last answer taken (benchmarks wait for it). */
const KEPT = (window.moeLive ??= { axis: "speedup", pinned: null, last: null, taken: null });

function node(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  made.append(...children.flat());
  return made;
}

const named = (k) => (k ? `K = ${k}` : "no drafts");
