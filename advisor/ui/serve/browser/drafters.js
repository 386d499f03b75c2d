// Drafters side by side: each at its own accepted length and best K, from show/words/drafters.py.

export default function ({ data, parentElement, setTriggerValue }) {
  const box = parentElement.querySelector(".live") || parentElement.appendChild(node("div", { class: "live beside" }));
  const ends = data.rows.flatMap(({ range }) => range), low = Math.min(1, ...ends), wide = Math.max(1, ...ends) - low, place = (value) => (100 * (value - low)) / wide;
  const two = (first, second) => [first, node("small", {}, second)], times = (value) => `${value.toFixed(2)}×`;
  const rows = data.rows.map((one) => {
    const [from, middle, to] = one.range, { drafter, acceptance } = one;
    const span = node("div", { class: "span", title: `${times(from)} to ${times(to)}` }, node("b", { style: `left:${place(1)}%` }), node("i", { style: `left:${place(from)}%;width:${place(to) - place(from)}%` }), node("s", { style: `left:${place(middle)}%` }));
    const use = one.in_use ? "in use" : button("pin", "Use", () => setTriggerValue("chosen", { drafter_id: drafter, acceptance }), { "aria-label": `Use ${one.name}` });
    return row(one.in_use ? "chosen" : "", node("span", {}, two(one.name, one.text)), one.accepted, one.k, times(middle), span, one.published, node("span", {}, two(one.fits, one.takes)), use);
  });
  const heads = ["Drafter, text", "Accepted", "Best K", "Gain", "80% range", "Published here", "Requests that fit", ""];
  box.replaceChildren(node("p", { class: "reason" }, data.finding), node("div", { class: "scroll" }, grid(heads, rows)), ...data.notes.map((note) => node("p", { class: "limit" }, note)));
}
