// How elements and pieces of a chart are made: shared by the live answer and by sheets.

/** `attributes` by name, or a class alone. */
function filled(made, attributes, children) {
  if (attributes.at) attributes = { class: attributes };
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") made.style.cssText = value; // an attribute is against the policy of a file
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  made.append(...children.flat());
  return made;
}

const node = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);
const button = (css, said, onclick, more = {}) => node("button", { class: css, onclick, ...more }, said);
const el = (name, attributes, ...children) => filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const line = (d, style) => el("path", { d, fill: "none", style });
const area = (d, style) => el("path", { d, style });
const rect = (x, y, width, height, style) => el("rect", { x, y, width, height, style });
const dot = (cx, cy, r, style, said) => el("circle", { cx, cy, r, style }, el("title", {}, said));
const diamond = (x, y, r, style) => area(`M${x},${y - r}L${x + r},${y}L${x},${y + r}L${x - r},${y}Z`, style);
/** A text around its place, or from it on. */
const label = (x, y, said, css, anchor = "middle", style = "") => el("text", { x, y, class: css, "text-anchor": anchor, style }, said);
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
/** The area between (x, low, high). */
const span = (points) => `${path(points.map(([x, , high]) => [x, high]))}L${path([...points].reverse()).slice(1)}Z`;

/** Height of the zones' names. */
const SASH = 40;

/** A part of a chart in its color, with the longest of its names that fits. */
function zone(svg, kind, names, from, to, box) {
  const wide = to - from, color = `fill:var(--${kind})`;
  svg.append(rect(from, box.top, wide, SASH - 4, color), rect(from, box.top, wide, box.bottom - box.top, `${color};opacity:.5`));
  const fits = names.find((said) => said.length * 6.6 < wide);
  if (fits) svg.append(label(from + wide / 2, box.top + 23, fits, "zone", "middle", `fill:var(--${kind}-ink)`));
}

/** Names at the ends of lines, apart from one another. On a narrow screen those that have one stand at their line's start. */
function ends(svg, names, s, from) {
  const apart = 15;
  names.sort((a, b) => a.at - b.at);
  names.forEach((one, i) => (one.y = Math.max(Math.min(one.at, s.box.bottom), i ? names[i - 1].y + apart : 0)));
  for (let i = names.length - 1, limit = s.box.bottom; i >= 0; i--, limit -= apart) names[i].y = Math.min(names[i].y, limit);
  if (s.narrow) for (const one of names) if (one.start) svg.append(label(s.box.left + 8, one.start - 8, one.said, "end halo", "start", `fill:var(--${one.color})`));
  if (!s.narrow) for (const one of names) svg.append(label(Math.max(from, s.box.right) + 10, one.y + 4, one.said, "end", "start", `fill:var(--${one.color});${one.bold ? "font-weight:650" : ""}`));
}
