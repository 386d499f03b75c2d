// Why: what a round takes by K, and the split of the verification by Amdahl's law, at the batch of the live answer.

const COLORS = ["#0072B2", "#56B4E9", "#009E73", "#E69F00", "#9a9a9a", "#CC79A7", "#D55E00"];

function rounds(w, row, chosen, width) {
  const high = 380, top = 26, bottom = 322, n = w.drafts.length, step = Math.min((width - 8) / n, 76), wide = Math.min(step * 0.64, 44);
  const totals = w.drafts.map((_, i) => w.ms.reduce((sum, group) => sum + group[row][i], 0)), most = Math.max(...totals);
  const title = `Time of one round by K at batch ${w.batches[row]}: ${w.drafts.map((k, i) => `${named(k)} ${totals[i].toPrecision(3)} ms`).join(", ")}.`;
  const svg = el("svg", { viewBox: `0 0 ${width} ${high}`, height: high, role: "img", "aria-label": title });
  w.drafts.forEach((k, i) => {
    const x = 4 + i * step + (step - wide) / 2, middle = x + wide / 2;
    let y = bottom;
    w.ms.forEach((group, place) => {
      const tall = (group[row][i] / most) * (bottom - top);
      y -= tall;
      const css = `fill:${COLORS[place]};opacity:${k === chosen ? 1 : 0.55};stroke:var(--page);stroke-width:1`;
      const bar = rect(x, y, wide, Math.max(tall, 0), css);
      bar.append(el("title", {}, `${w.groups[place]}: ${group[row][i].toPrecision(3)} ms`));
      svg.append(bar);
      if (tall > 15 && wide > 20) svg.append(label(middle, y + tall / 2 + 4, place + 1, "tick halo"));
    });
    const said = [[y - 7, totals[i].toPrecision(3), "tick"], [bottom + 18, `K=${k}`, k === chosen ? "note" : ""], [bottom + 34, `÷ ${w.accepted[i].toFixed(2)}`, "tick"]];
    for (const place of said) svg.append(label(middle, ...place));
  });
  return svg;
}

function split(w, row, i, f) {
  const pick = (table) => table[row][i], times = (value) => `${value.toFixed(2)}×`;
  const [plain, verify] = w.touched, grows = plain[row] > 0 ? verify[row][i] / plain[row] : 1;
  const round = w.ms.reduce((sum, group) => sum + group[row][i], 0) / w.ms.reduce((sum, group) => sum + group[row][0], 0);
  const lines = [];
  if (w.experts && i) {
    lines.push([`Experts loaded, of ${w.experts}`, `${Math.round(plain[row])} → ${Math.round(verify[row][i])}`]);
    lines.push(["Expert loading share of a baseline step, f", percent(w.share[row])], ["Growth of loaded experts, U", times(grows)]);
    lines.push(["Verification by Amdahl, 1 + f (U − 1)", times(pick(w.amdahl))], ["Verification, modeled", times(pick(w.verify))]);
    if (grows > 1.02) {
      const hidden = pick(w.hidden);
      lines.push(hidden >= 0 ? ["Extra loading that is hidden", percent(hidden)] : ["Verification costs beyond loading", times(pick(w.verify) / pick(w.amdahl))]);
    }
  } else if (i) lines.push(["Verification, modeled", times(pick(w.verify))]);
  lines.push(["Round with drafting", times(round)], ["Accepted tokens", (w.accepted[i] * f).toFixed(2)]);
  lines.push(["Speedup = accepted ÷ round", times(w.speedup[row][i] * f)]);
  return lines;
}

function why(v) {
  const { w } = v, last = KEPT.last && KEPT.last.key === w.key ? KEPT.last : { batch: w.batch, k: w.k, f: w.drafts.map(() => 1) };
  let at = 0;
  w.batches.forEach((batch, i) => { if (Math.abs(Math.log(batch / last.batch)) < Math.abs(Math.log(w.batches[at] / last.batch))) at = i; });
  const i = Math.max(w.drafts.indexOf(last.k), 0), batch = w.batches[at];
  v.first.textContent = `One round by K at batch ${batch}, ms`;
  v.second.textContent = last.k ? `Why K = ${last.k} ${w.speedup[at][i] * last.f[i] > 1 ? "pays" : "does not pay"} at batch ${batch}` : `At batch ${batch}`;
  if (v.plot.clientWidth) v.plot.replaceChildren(rounds(w, at, last.k, v.plot.clientWidth));
  v.lines.replaceChildren(grid([], split(w, at, i, last.f[i]).map(([said, value], place, all) => row(place === all.length - 1 ? "chosen" : "", said, value))));
}

function buildWhy(root) {
  const v = { first: node("h2", {}), second: node("h2", {}), plot: node("div", { class: "plot", style: "min-height:380px" }), lines: node("div", {}), key: node("div", "swatches") };
  root.append(node("div", "live", node("div", "why", node("section", {}, v.first, v.plot, v.key), node("section", {}, v.second, v.lines))));
  v.moved = () => { if (root.host && root.host.isConnected) why(v); else window.removeEventListener("moe-live", v.moved); };
  window.addEventListener("moe-live", v.moved);
  new ResizeObserver(v.moved).observe(v.plot);
  return v;
}

export default function (component) {
  const root = component.parentElement, v = (root.live ??= buildWhy(root));
  v.w = component.data;
  v.key.replaceChildren(...v.w.groups.map((name, i) => node("span", {}, node("i", { style: `background:${COLORS[i]}` }), `${i + 1} ${name}`)));
  why(v);
}
