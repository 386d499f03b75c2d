// The chart of the live answer, drawn as SVG: no library is loaded, and a slider redraws it in a few milliseconds.

const AXES = {
  speedup: { name: "Speedup", title: "Speedup over no speculation", of: (m, f, row, k) => m.speedup[row][k] * f[k], show: (v) => `${+v.toFixed(2)}×` },
  tpot: { name: "ms/token", title: "Time per output token, ms", of: (m, f, row, k) => m.tpot_ms[row][k] / f[k], show: (v) => `${+v.toPrecision(3)}`, log: true, falls: true },
  rate: { name: "Tokens/s/GPU", title: "Tokens per second and GPU", of: (m, f, row, k) => m.rate[row][k] * f[k], show: (v) => (+v.toPrecision(3)).toLocaleString("en"), log: true },
  usd: { name: "USD", title: "USD per million tokens", of: (m, f, row, k) => (m.usd_per_hour * 1e6) / 3600 / (m.rate[row][k] * f[k]), show: (v) => `$${+v.toPrecision(2)}`, log: true, falls: true },
};

const el = (name, attributes, ...children) => filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const line = (d, style) => el("path", { d, fill: "none", style });
const area = (d, style) => el("path", { d, style });
const rect = (x, y, width, height, style) => el("rect", { x, y, width, height, style });
const dot = (cx, cy, r, style, said) => el("circle", { cx, cy, r, style }, el("title", {}, said));
/** A text around its place, or from it on. */
const label = (x, y, said, css, anchor = "middle", style = "") => el("text", { x, y, class: css, "text-anchor": anchor, style }, said);

/** The scale of one picture: places of batches and values, and what fits between. */
function frame(m, axis, f, ranges, width) {
  const isSpeedup = axis === "speedup", narrow = width < 560, height = narrow ? 340 : 524;
  const box = { left: 44, right: width - 48, top: 22, bottom: height - 74 };
  const kind = AXES[axis], rows = m.batches.map((_, i) => i).filter((i) => m.batches[i] <= Math.max(m.last, 1));
  const values = [];
  for (const row of rows) {
    for (let k = isSpeedup ? 1 : 0; k < m.drafts.length; k++) values.push(kind.of(m, f, row, k));
    const k = m.drafts.indexOf(scheduled(ranges, m.batches[row]));
    if (k > 0) values.push(...band(m, axis, f, row, k));
    if (isSpeedup && m.twin) values.push(m.twin[row]);
  }
  if (isSpeedup) for (const one of [...m.published, ...m.own]) values.push(Math.min(one[2], 4));
  let low = Math.min(...values), high = Math.max(...values);
  if (isSpeedup) [low, high] = [Math.max(Math.min(low, 0.85) - 0.05, 0.3), Math.max(high * 1.03, 1.25)];
  const end = Math.log(m.end) || 1;
  const x = (batch) => box.left + (Math.log(batch) / end) * (box.right - box.left);
  const scale = kind.log ? Math.log : (v) => v;
  const y = (value) => box.bottom - ((scale(value) - scale(low)) / (scale(high) - scale(low))) * (box.bottom - box.top);
  const batch = (px) => Math.round(Math.exp(Math.min(Math.max((px - box.left) / (box.right - box.left), 0), 1) * end));
  return { box, x, y, low, high, height, narrow, kind, rows, batch };
}

/** Ends of the 80 % band of one K, on any axis. */
function band(m, axis, f, row, k) {
  const value = AXES[axis].of(m, f, row, k), middle = m.speedup[row][k];
  const [low, high] = [m.low[row][k] / middle, m.high[row][k] / middle];
  return AXES[axis].falls ? [value / high, value / low] : [value * low, value * high];
}

function ticks(s) {
  if (!s.kind.log) {
    const step = s.high - s.low > 4 ? 1 : 0.5, first = Math.ceil(s.low / step);
    return Array.from({ length: Math.floor(s.high / step) - first + 1 }, (_, i) => (first + i) * step);
  }
  const found = [];
  for (let power = 10 ** Math.floor(Math.log10(s.low)); power <= s.high; power *= 10) found.push(power, 2 * power, 5 * power);
  return found.filter((one) => one >= s.low && one <= s.high);
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

/** The whole picture for one state: {m, axis, batch, k, length, ranges, marks, pinned, label}. */
function picture(state, width) {
  const { m, axis, batch, length, ranges, marks } = state;
  const f = factors(m, length), s = frame(m, axis, f, ranges, width), { box, x, y, kind } = s, isSpeedup = axis === "speedup";
  const svg = el("svg", { viewBox: `0 0 ${width} ${s.height}`, height: s.height, role: "img", "aria-label": state.label });
  const add = (made) => svg.append(made), wide = box.right - box.left;
  add(el("clipPath", { id: "inside" }, rect(box.left - 7, box.top - 6, wide + 14, box.bottom - box.top + 6, "")));
  for (const value of ticks(s)) {
    add(line(`M${box.left},${y(value)}H${box.right}`, "stroke:var(--line)"));
    add(label(box.left - 7, y(value) + 4, kind.show(value), "tick", "end"));
  }
  const ends = x(Math.max(Math.min(m.largest, m.end), 1));
  if (isSpeedup) {
    add(rect(box.left, y(1), wide, Math.max(box.bottom - y(1), 0), "fill:var(--ink);opacity:.035"));
    add(line(`M${box.left},${y(1)}H${x(m.last)}`, "stroke:var(--faint);stroke-width:1.3"));
  }
  if (m.largest > 0 && m.largest < m.end) {
    add(rect(ends, box.top, box.right - ends, box.bottom - box.top, "fill:var(--ink);opacity:.07"));
    add(label((ends + box.right) / 2, box.top + 15, box.right - ends > 74 ? "memory full" : "full", "tick"));
  }
  const inside = el("g", { "clip-path": "url(#inside)" });
  add(inside);
  bands(inside, m, axis, f, s, ranges);
  family(inside, svg, state, f, s);
  if (isSpeedup && m.twin) {
    const carried = f[m.drafts.indexOf(m.k)];
    inside.append(line(path(s.rows.map((row) => [x(m.batches[row]), y(m.twin[row] * carried)])), "stroke:var(--faint);stroke-width:1.6;stroke-dasharray:2 4"));
  }
  thick(inside, m, axis, f, s, ranges);
  if (isSpeedup) points(inside, m, s);
  strip(svg, s, ranges, m);
  add(line(`M${x(batch)},${box.top - 4}V${box.bottom}`, "stroke:var(--ink);stroke-dasharray:3 3"));
  const value = valueAt(m, axis, f, batch, m.drafts.indexOf(state.k));
  add(dot(x(batch), y(value), 7, "fill:var(--schedule);stroke:var(--page);stroke-width:2.5", `batch ${batch}`));
  add(label(Math.min(Math.max(x(batch), box.left + 26), box.right - 26), 12, `batch ${whole(batch)}`, "note"));
  if (isSpeedup) notes(svg, state, f, s);
  if (isSpeedup && box.bottom - y(1) > 22) add(label(box.left + 8, y(1) + 17, "slower", "tick halo", "start"));
  for (let tick = 1; tick <= m.end; tick *= 4) add(label(x(tick), box.bottom + 42, whole(tick), "tick"));
  add(label(box.left + wide / 2, box.bottom + 62, "Batch", "tick"));
  return { svg, s };
}

function valueAt(m, axis, f, batch, k) {
  const [row, share, after] = between(m, batch), { of } = AXES[axis];
  return mixed(share, of(m, f, row, k), of(m, f, after, k));
}

/** Places of one range of the schedule: its ends and the rows between. */
function along(m, range, of) {
  const inner = m.batches.filter((one) => one >= range.first && one <= range.last);
  return [Math.max(range.first - 0.5, 1), ...inner, Math.min(range.last + 0.5, m.last)].map((batch) => of(batch));
}

function bands(group, m, axis, f, s, ranges) {
  for (const range of ranges) {
    const k = m.drafts.indexOf(range.k);
    if (!k) continue;
    const ends = along(m, range, (batch) => {
      const value = valueAt(m, axis, f, batch, k), [row, share] = between(m, batch), near = share < 0.5 ? row : row + 1;
      const [low, high] = band(m, axis, f, near, k), middle = AXES[axis].of(m, f, near, k);
      return [s.x(batch), s.y((value * low) / middle), s.y((value * high) / middle)];
    });
    const d = `${path(ends.map(([px, , high]) => [px, high]))}L${path(ends.reverse().map(([px, low]) => [px, low])).slice(1)}Z`;
    group.append(area(d, "fill:var(--schedule);opacity:.13"));
  }
}

/** Every K as a thin line, the darker the fewer tokens are drafted, led to its name at the right end. */
function family(group, svg, state, f, s) {
  const { m, axis, pinned } = state, ends = [], last = s.rows[s.rows.length - 1];
  const most = m.drafts[m.drafts.length - 1] || 1, from = s.x(m.batches[last]);
  const shade = (k) => `stroke:var(--family);stroke-width:${1.7 - (0.7 * k) / most};opacity:${1 - (0.5 * k) / most}`;
  m.drafts.forEach((k, i) => {
    if (axis === "speedup" && !k) return;
    const of = (row) => s.y(s.kind.of(m, f, row, i));
    const css = k === pinned ? "stroke:var(--pinned);stroke-width:2.6" : k ? shade(k) : "stroke:var(--ink);stroke-width:1.4;stroke-dasharray:5 4";
    group.append(line(path(s.rows.map((row) => [s.x(m.batches[row]), of(row)])), css));
    const y = Math.min(of(last), s.box.bottom);
    ends.push({ k, css, at: y, y });
  });
  ends.sort((a, b) => a.y - b.y);
  const apart = s.narrow ? 12 : 15;
  ends.forEach((one, i) => (one.y = i ? Math.max(one.y, ends[i - 1].y + apart) : one.y));
  const over = ends.length ? ends[ends.length - 1].y - s.box.bottom : 0;
  if (over > 0) for (let i = ends.length - 1, limit = s.box.bottom; i >= 0; i--, limit -= apart) ends[i].y = Math.min(ends[i].y, limit);
  for (const one of ends) {
    const bold = one.k === pinned ? "font-weight:700;fill:var(--pinned)" : "";
    svg.append(line(path([[from + 1, one.at], [from + 4, one.at], [from + 12, one.y], [from + 15, one.y]]), one.css));
    svg.append(label(from + 18, one.y + 4, one === ends[0] ? `K=${one.k}` : one.k, "tick halo", "start", bold));
  }
}

function thick(group, m, axis, f, s, ranges) {
  for (const range of ranges) {
    const k = m.drafts.indexOf(range.k);
    const d = path(along(m, range, (batch) => [s.x(batch), s.y(valueAt(m, axis, f, batch, k))]));
    group.append(line(d, "stroke:var(--page);stroke-width:7;stroke-linecap:round"));
    group.append(line(d, "stroke:var(--schedule);stroke-width:4;stroke-linecap:round"));
  }
}

function points(group, m, s) {
  for (const [batch, , value, same] of m.published) {
    const px = s.x(batch), py = s.y(value), d = `M${px},${py - 5}L${px + 5},${py}L${px},${py + 5}L${px - 5},${py}Z`;
    const css = same ? "fill:var(--published);stroke:var(--page);stroke-width:.8" : "fill:none;stroke:var(--faint);stroke-width:1.2";
    group.append(area(d, css)); // the card under the pointer says what it is
  }
  for (const [batch, k, value] of m.own) {
    const said = `yours: ${value.toFixed(2)}×, batch ${batch}, K ${k ?? "not stated"}`;
    group.append(dot(s.x(batch), s.y(value), 5.5, "fill:var(--own);stroke:var(--page);stroke-width:1.5", said));
  }
}

/** Which K rules where. */
function strip(svg, s, ranges, m) {
  const top = s.box.bottom + 1, most = Math.max(...m.drafts, 1);
  ranges.forEach((range, i) => {
    const from = s.x(range.first), to = i + 1 < ranges.length ? s.x(ranges[i + 1].first) : s.x(range.last), wide = to - from;
    const tint = 0.05 + (0.37 * range.k) / most;
    svg.append(rect(from, top, Math.max(wide - 2, 1), 25, `fill:var(--schedule);opacity:${tint}`));
    const said = wide > 66 && (!i || !range.k) ? named(range.k) : wide > 13 ? String(range.k) : "";
    svg.append(label(from + wide / 2 - 1, top + 17, said, "note", "middle", "fill:var(--schedule)"));
  });
}

/** Sweet spot, dip with its cause, the peak after it and break-even, where there is room for them. */
function notes(svg, state, f, s) {
  const { m, marks, ranges } = state, { box, x, y } = s, taken = [];
  const free = (b) => taken.every((o) => b.x2 < o.x1 || b.x1 > o.x2 || b.y2 < o.y1 || b.y1 > o.y2);
  // A note stands where no line runs, or nowhere: its point says the same.
  const end = Math.log(m.end) || 1, width = box.right - box.left;
  const carried = f[m.drafts.indexOf(m.k)];
  const covers = (b) => {
    for (let px = Math.max(b.x1, box.left); px <= Math.min(b.x2, x(m.last)); px += 4) {
      const batch = Math.exp(((px - box.left) / width) * end), [row, share, after] = between(m, batch);
      const lines = m.drafts.map((_, i) => i).filter((i) => m.drafts[i]).map((i) => valueAt(m, "speedup", f, batch, i));
      if (m.twin) lines.push(carried * mixed(share, m.twin[row], m.twin[after]));
      if (lines.some((value) => y(value) > b.y1 && y(value) < b.y2)) return true;
    }
    return false;
  };
  taken.push({ x1: x(state.batch) - 1, x2: x(state.batch) + 1, y1: 0, y2: box.bottom }, { x1: box.left, x2: box.left + 180, y1: y(1) + 3, y2: y(1) + 22 });
  if (m.largest < m.end) taken.push({ x1: x(Math.max(m.largest, 1)), x2: box.right, y1: 0, y2: box.top + 20 });
  const put = (px, py, said, tries) => {
    const wide = said.length * 7, shifts = [0, wide / 2 + 7, -wide / 2 - 7];
    const rows = [...tries, box.top + 14 - py, box.bottom - 8 - py, box.bottom - 26 - py];
    for (const [dx, dy] of rows.flatMap((dy) => shifts.map((dx) => [dx, dy]))) {
      const left = Math.min(Math.max(px + dx - wide / 2, box.left + 2), box.right - wide), y = py + dy;
      const here = { x1: left - 4, x2: left + wide + 4, y1: y - 12, y2: y + 4 };
      if (left < box.left || y < box.top + 8 || y > box.bottom - 4 || !free(here) || covers(here)) continue;
      taken.push(here);
      svg.append(line(`M${px},${py}V${dy < 0 ? y + 4 : y - 12}`, "stroke:var(--schedule)"), label(left, y, said, "note halo", "start"));
      break;
    }
    svg.append(dot(px, py, 4, "fill:var(--page);stroke:var(--schedule);stroke-width:2", said));
  };
  const keep = (px, py) => taken.push({ x1: px - 9, x2: px + 9, y1: py - 9, y2: py + 9 });
  keep(x(state.batch), y(valueAt(m, "speedup", f, state.batch, m.drafts.indexOf(state.k))));
  for (const [batch, , value] of [...m.published, ...m.own]) keep(x(batch), y(value));
  const below = [60, 84, 108, 132, 156, 180, -40], above = [-22, -40, -58, -76, 44, 66];
  const at = (one) => [x(one.batch), y(one.speedup)];
  const near = (one) => [...above, y(1) - at(one)[1] + 38, ...below];
  if (marks.sweet) put(...at(marks.sweet), `sweet spot: ${marks.sweet.speedup.toFixed(2)}×, batch ${marks.sweet.batch}`, near(marks.sweet));
  if (marks.dip) {
    const causes = { experts: `drafts load ${percent(marks.dip.grows)} more experts`, cliff: "a kernel switches" };
    put(...at(marks.dip), `dip, batch ${marks.dip.batch}: ${causes[marks.dip.cause] || `${marks.dip.speedup.toFixed(2)}×`}`, [34, 48, ...near(marks.dip)]);
  }
  if (marks.peak) put(...at(marks.peak), `second peak: ${marks.peak.speedup.toFixed(2)}×, batch ${marks.peak.batch}`, above);
  if (marks.end) {
    const k = m.drafts.indexOf(ranges[ranges.length - 2].k);
    put(x(marks.end), y(valueAt(m, "speedup", f, marks.end, k)), `break-even: batch ${whole(marks.end)}`, above);
  }
  const { largest, outcome: { plain_largest } } = m, isFewer = largest < plain_largest;
  if (largest && largest < m.end) put(x(largest), box.bottom, isFewer ? `${whole(largest)} fit, ${whole(plain_largest)} without drafter` : `${whole(largest)} fit`, [-12, -30]);
  if (isFewer && plain_largest < m.end) svg.append(dot(x(plain_largest), box.bottom, 4, "fill:var(--page);stroke:var(--faint);stroke-width:2", "without drafter"));
}
