// What both components of the page need: what outlives them.

/** What outlives a component that Streamlit puts up anew: axis, pinned K, the last thing shown, and the batch of the last answer taken (benchmarks wait for it). */
const KEPT = (window.moeLive ??= { axis: "speedup", pinned: null, last: null, taken: null });

const named = (k) => (k ? `K = ${k}` : "no drafts");
