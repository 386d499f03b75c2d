// Drafters side by side: each at its own accepted length and best K, from show/words/drafters.py.

export default function ({ data, parentElement, setTriggerValue }) {
  const box = parentElement.querySelector(".live") || parentElement.appendChild(node("div", "live beside"));
  const lines = data.rows.map(({ chosen, name, cells, in_use }) => {
    const use = in_use ? "in use" : button("pin", "Use", () => setTriggerValue("chosen", chosen), { "aria-label": `Use ${name}` });
    const [head, ...rest] = cells.map(([first, second]) => node("span", {}, first, second ? node("small", {}, second) : ""));
    return row(in_use ? "chosen" : "", head, ...rest, use);
  });
  box.replaceChildren(node("p", "reason", data.finding), node("div", "scroll", grid(data.heads, lines)), ...data.notes.map((note) => node("p", "limit", note)));
}
