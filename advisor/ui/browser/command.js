// A text to paste, as the live answer and sheets draw it: title, Copy, text, note. `label`: its name where it is no launch command.

function command({ text, note, hint, engine, title, label }) {
  const copy = button("fill", "Copy", async () => {
    try { await navigator.clipboard.writeText(text); } catch { getSelection().selectAllChildren(code); document.execCommand("copy"); }
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const broken = text.split(/(?<=[,{]|":)/).flatMap((part) => [part, node("wbr", {})]); // lines end between words
  const code = node("pre", { tabindex: 0, role: "region", "aria-label": label || `Launch command for ${engine}`, title: hint || "" }, broken);
  const head = node("div", "head", node("h2", {}, title || `Launch on ${engine}`), text ? copy : "");
  return [head, text ? code : "", note ? node("p", {}, note) : ""];
}
