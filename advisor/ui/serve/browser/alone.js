// A command by itself, on Measure.

export default function ({ data, parentElement }) {
  const box = parentElement.querySelector(".launch") || parentElement.appendChild(node("div", "live launch"));
  box.replaceChildren(...command(data));
}
