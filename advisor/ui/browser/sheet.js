// A sheet of show/sheet.py, drawn from plain values. Texts are set as text, never as markup.

const GREY = "fill:none;stroke:var(--faint);";

/** From values of an axis to places between two ends. */
function scale(axis, from, to) {
  const at = axis.log ? Math.log : (value) => value, low = at(axis.low), span = at(axis.high) - low || 1;
  return (value) => from + ((at(value) - low) / span) * (to - from);
}

const SHAPES = {
  dot: (x, y, color) => dot(x, y, 4.5, `fill:var(--${color});stroke:var(--page);stroke-width:1`),
  speck: (x, y, color) => dot(x, y, 2.6, `fill:var(--${color});opacity:.6`),
  ring: (x, y, color) => dot(x, y, 4.5, `fill:var(--page);stroke:var(--${color});stroke-width:1.6`),
};

/** A plate in a width: names stand at the ends of lines where they fit, else at their starts. */
function drawn(p, width) {
  const named = p.lines.filter((one) => one.name), longest = Math.max(0, ...named.map((one) => one.name.length)), tight = width < 560;
  const narrow = tight && longest > 10, aside = tight ? 0 : p.stretches_name.length * 6.2, under = [p.x.title, tight && p.stretches_name].filter(Boolean);
  const room = narrow || !(longest || aside) ? 16 : tight ? 72 : Math.max(longest * 7, aside) + 18;
  const head = p.zones.length ? SASH : 8, strip = p.stretches.some((one) => one.name), below = strip ? 26 : p.stretches.length * 9, box = { left: 14 + 6.6 * Math.max(...p.y.ticks.map(([, said]) => said.length), 1), right: width - room, top: 4 };
  box.bottom = box.top + head + p.height;
  const x = scale(p.x, box.left, box.right), y = scale(p.y, box.bottom, box.top + head), high = box.bottom + below + 24 + 18 * under.length;
  const svg = el("svg", { viewBox: `0 0 ${width} ${high}`, height: high, role: "img", "aria-label": p.label }), add = (...made) => svg.append(...made);
  const beside = (at, down, said, css, style) => { const way = at + said.length * 7 > box.right ? -1 : 1; return label(at + 8 * way, down, said, css, way > 0 ? "start" : "end", style); };
  for (const one of p.zones) zone(svg, one.color, one.names, x(one.start), x(one.end), box);
  for (const [value, said] of p.y.ticks) add(line(`M${box.left},${y(value)}H${box.right}`, "stroke:var(--line)"), label(box.left - 7, y(value) + 4, said, "tick", "end"));
  const placed = []; // the first ticks have the right of way
  for (const [value, said] of p.x.ticks) {
    const half = said.length * 3.3 + 3;
    if (placed.some(([at, wide]) => Math.abs(x(value) - at) < half + wide)) continue;
    placed.push([x(value), half]);
    add(label(x(value), box.bottom + below + 18, said, "tick"));
  }
  under.forEach((said, i) => add(label((box.left + box.right) / 2, box.bottom + below + 38 + 18 * i, said, "tick")));
  if (p.y.title) add(label(box.left, box.top + head - 2, p.y.title, "tick halo", "start"));
  for (const one of p.bands) add(area(span(one.points.map(([at, low, top]) => [x(at), y(low), y(top)])), `fill:var(--${one.color});opacity:.13`));
  if (p.level !== null) add(line(`M${box.left},${y(p.level)}H${box.right}`, `${GREY}stroke-dasharray:2 4`));
  for (const one of p.marks) add(line(`M${x(one.x)},${box.top + head - 4}V${box.bottom}`, `${GREY}stroke-dasharray:2 4`), beside(x(one.x), box.bottom - 7, one.text, "tick halo"));
  for (const one of p.lines) {
    const d = path(one.points.map(([at, value]) => [x(at), y(value)])), width = one.bold ? one.width + 1.2 : one.width;
    if (one.bold) add(line(d, `stroke:var(--page);stroke-width:${width + 3}`));
    add(line(d, `stroke:var(--${one.color});stroke-width:${width};stroke-linejoin:round;stroke-dasharray:${one.dash || "none"}`));
  }
  for (const one of p.lines) for (const [at, value] of one.rings) add(SHAPES.ring(x(at), y(value), one.color));
  ends(svg, named.map((one) => ({ at: y(one.points.at(-1)[1]), start: y(one.points[0][1]), said: one.name, color: one.color, bold: one.bold })), { box, narrow }, box.right);
  for (const one of p.dots) {
    const made = el("g", {}, SHAPES[one.shape](x(one.x), y(one.y), one.color));
    made.append(el("title", {}, one.title), one.name ? beside(x(one.x), y(one.y) + 4, one.name, "end halo", `fill:var(--${one.color})`) : "");
    add(made);
  }
  p.stretches.forEach((one, i) => {
    const wide = x(one.end) - x(one.start);
    if (!strip) return add(rect(x(one.start) - 4, box.bottom + 5 + 9 * i, wide + 8, 5, `fill:var(--${one.color});opacity:.85`));
    add(rect(x(one.start), box.bottom + 6, wide - 1, 18, `fill:var(--${one.color});opacity:${i % 2 ? 0.2 : 0.3}`));
    if (one.name.length * 6.4 < wide) add(label(x(one.start) + wide / 2, box.bottom + 19, one.name, "end", "middle"));
  });
  if (aside) add(label(box.right + 10, box.bottom + below / 2 + 9, p.stretches_name, "tick", "start"));
  return svg;
}

/** A range with its dot, or ticks, on the scale of its column. */
function bar(cell, on) {
  const x = scale(on, 6, 114), color = `var(--${cell.color || "schedule"})`, svg = el("svg", { viewBox: "0 0 120 16", height: 16, "aria-hidden": "true" }, line("M0,12H120", "stroke:var(--line)"));
  if (on.mark !== null) svg.append(line(`M${x(on.mark)},1V15`, `${GREY}stroke-dasharray:2 2`));
  for (const value of cell.ticks) svg.append(rect(x(Math.min(Math.max(value, on.low), on.high)) - 1.5, 4, 3, 9, `fill:${color}`));
  if (cell.range) {
    const [low, middle, high] = cell.range.map(x);
    svg.append(rect(low, 6, high - low, 4, `fill:${color};opacity:.4`), dot(middle, 8, 3.5, `fill:${color}`, ""));
  }
  return svg;
}

const BLOCKS = {
  plate(p) {
    const plot = node("div", { class: "plate" });
    const seen = new ResizeObserver(() => { if (plot.clientWidth && plot.clientWidth !== plot.drawn) plot.replaceChildren(drawn(p, (plot.drawn = plot.clientWidth))); });
    seen.observe(plot);
    return node("section", {}, node("h2", {}, p.title), plot);
  },
  table(t) {
    const css = (head) => (head.words ? "words" : ""), rows = t.rows.map((row) => node("tr", { class: row.chosen ? "chosen" : "" }, row.cells.map((cell, i) => {
      const drawing = cell.range || cell.ticks.length ? bar(cell, t.heads[i].scale) : "", said = cell.bold ? node("b", { class: "bold" }, cell.text) : drawing ? node("span", { class: "beside" }, cell.text) : cell.text;
      const grey = cell.grey ? node("span", { class: "grey" }, cell.grey) : "";
      return node(i ? "td" : "th", { class: css(t.heads[i]), scope: i ? null : "row", style: cell.color && !drawing ? `color:var(--${cell.color})` : null }, drawing, said, grey);
    })));
    const heads = t.heads.map((head) => node("th", { scope: "col", class: css(head), title: head.hint || null }, head.label));
    const table = node("table", {}, node("thead", {}, node("tr", {}, heads)), node("tbody", {}, rows));
    return node("section", {}, t.title ? node("h2", {}, t.title) : "", node("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t.title || t.heads[0].label }, table));
  },
  note: (one) => node("p", "note", one.text),
  copy: (one) => node("section", { class: "launch" }, command({ ...one, label: one.title })),
};

export default function ({ data, parentElement }) {
  const { headline, emphasis, reason, amber, rows } = data, at = emphasis ? headline.indexOf(emphasis) : -1;
  const title = at < 0 ? [headline] : [headline.slice(0, at), node("span", { style: "color:var(--schedule)" }, emphasis), headline.slice(at + emphasis.length)];
  const top = [headline ? node("h1", {}, title) : "", reason ? node("p", { class: "reason" }, reason) : "", amber ? node("p", { class: "amber" }, amber) : ""];
  const box = parentElement.querySelector(".sheet") || parentElement.appendChild(node("div", { class: "live sheet" }));
  box.replaceChildren(...top.filter(Boolean), ...rows.map((blocks) => node("div", { class: "row" }, blocks.map((one) => BLOCKS[one.kind](one)))));
}
