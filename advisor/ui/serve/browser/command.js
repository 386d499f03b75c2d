// A command to paste, as Serve and Measure draw it: title, Copy, text with its longest lists folded, note.

/** A command with its longest lists folded to the eye: what is selected or copied is whole. */
function folded(text) {
  const [before, ...after] = text.split(/(?<=\[\d+,\d+,)((?:\d+,){12,})/);
  const broken = (one) => one.split(/(?<=[,{]|":)/).flatMap((part) => [part, node("wbr")]);  // lines end between words
  const shown = (one, i) => (i % 2 ? broken(one) : [node("span", { class: "fold", "data-n": one.split(",").length - 1 }, one)]);
  return [...broken(before), ...after.flatMap(shown)];
}

function command({ text, note, hint, engine, title }) {
  const copy = node("button", { class: "fill", onclick: async () => {
    try { await navigator.clipboard.writeText(text); } catch { getSelection().selectAllChildren(code); document.execCommand("copy"); }
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  } }, "Copy");
  const code = node("pre", { tabindex: 0, role: "region", "aria-label": `Launch command for ${engine}`, title: hint || "" }, folded(text));
  const head = node("div", { class: "head" }, node("h2", {}, title || `Launch on ${engine}`), text ? copy : "");
  return [head, ...(text ? [code] : []), ...(note ? [node("p", {}, note)] : [])];
}
