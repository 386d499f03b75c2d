// The chart of the live answer, drawn as SVG: no library is loaded, and a slider redraws it in a few milliseconds.

const AXES = {
  speedup: { name: "Speedup", title: "Speedup over no speculation", of: (m, f, row, k) => m.speedup[row][k] * f[k], show: FORMS.x, unit: "×" },
  tpot: { name: "ms/token", title: "Time per output token, ms", of: (m, f, row, k) => m.tpot_ms[row][k] / f[k], show: digits, log: true, falls: true },
  rate: { name: "Tokens/s/GPU", title: "Tokens per second and GPU", of: (m, f, row, k) => m.rate[row][k] * f[k], show: (v) => (+v.toPrecision(3)).toLocaleString("en"), log: true },
  usd: { name: "USD/M", title: "USD per million tokens", of: (m, f, row, k) => (m.usd_per_hour * 1e6) / 3600 / (m.rate[row][k] * f[k]), show: (v) => `$${digits(v)}`, log: true, falls: true },
};

/** The scale of one picture: places of batches and values, and what fits between. `shown`: K with a line of their own. */
function frame(m, axis, f, ranges, width, shown, asked) {
  const isSpeedup = axis === "speedup", narrow = width < 560, height = narrow ? 380 : 520;
  const box = { left: 44, right: width - (narrow ? 12 : 112), top: 26, bottom: height - 92 };
  const kind = AXES[axis], rows = m.batches.map((_, i) => i).filter((i) => m.batches[i] <= Math.max(m.last, 1));
  const values = [];
  for (const row of rows) {
    for (const k of isSpeedup ? shown : [0, ...shown]) values.push(kind.of(m, f, row, m.drafts.indexOf(k)));
    const k = m.drafts.indexOf(scheduled(ranges, m.batches[row]));
    if (k > 0) values.push(...band(m, axis, f, row, k));
    if (isSpeedup && m.twin) values.push(m.twin[row] * f[m.drafts.indexOf(m.k)]);
  }
  for (const pin of beside(m, axis)) for (const batch of pin.batches) if (batch <= Math.min(pin.last, m.last)) values.push(servedAt(pin, axis, pin.f, batch, pin.ranges));
  if (isSpeedup) for (const one of [...m.published, ...m.own]) values.push(Math.min(one[2], 4));
  let low = Math.min(...values), high = Math.max(...values);
  if (isSpeedup) [low, high] = [Math.max(Math.min(low, 0.85) - 0.05, 0.3), Math.max(high * 1.03, 1.25)];
  const end = Math.log(Math.min(m.end, Math.max(m.last * 1.22, asked))) || 1, top = box.top + SASH;
  const x = (batch) => box.left + (Math.log(batch) / end) * (box.right - box.left);
  const scale = kind.log ? Math.log : (v) => v;
  const y = (value) => box.bottom - ((scale(value) - scale(low)) / (scale(high) - scale(low))) * (box.bottom - top);
  const batch = (px) => Math.round(Math.exp(Math.min(Math.max((px - box.left) / (box.right - box.left), 0), 1) * end));
  return { box, x, y, low, high, height, narrow, kind, rows, batch, end: Math.exp(end) };
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

/** The whole picture for one state: {m, axis, batch, k, length, ranges, zones, shown, pinned, label}. */
function picture(state, width) {
  const { m, axis, batch, length, ranges, shown } = state;
  const f = factors(m, length), s = frame(m, axis, f, ranges, width, shown, batch), { box, x, y, kind } = s, isSpeedup = axis === "speedup";
  const svg = el("svg", { viewBox: `0 0 ${width} ${s.height}`, height: s.height, role: "img", "aria-label": state.label });
  const add = (made) => svg.append(made), wide = box.right - box.left;
  add(el("clipPath", { id: "inside" }, rect(box.left - 7, box.top, wide + 14, box.bottom - box.top, "")));
  zones(svg, state.zones, s, m);
  for (const value of ticks(s)) {
    add(line(`M${box.left},${y(value)}H${box.right}`, "stroke:var(--line)"));
    add(label(box.left - 7, y(value) + 4, value.toLocaleString("en") + (kind.unit || ""), "tick", "end"));
  }
  if (isSpeedup) add(line(`M${box.left},${y(1)}H${x(m.last)}`, "stroke:var(--ink);stroke-width:1.3"));
  if (m.largest > 0 && m.largest < s.end) {
    const ends = x(m.largest);
    add(rect(ends, box.top, box.right - ends, box.bottom - box.top, "fill:var(--ink);opacity:.07"));
    add(label(Math.min(ends, box.right - 24), box.bottom + 76, `▲ ${whole(m.largest)} fit`, "note"));
  }
  const inside = el("g", { "clip-path": "url(#inside)" }), last = s.rows[s.rows.length - 1], names = [];
  const trace = (of, style) => inside.append(line(path(s.rows.map((row) => [x(m.batches[row]), of(row)])), style));
  add(inside);
  bands(inside, m, axis, f, s, ranges);
  for (const k of isSpeedup ? shown : [0, ...shown]) {
    const i = m.drafts.indexOf(k), of = (row) => y(kind.of(m, f, row, i)), color = k === state.pinned ? "pinned" : k ? "family" : "ink";
    trace(of, `stroke:var(--${color});stroke-width:${k === state.pinned ? 2.4 : 1};${k ? "" : "stroke-dasharray:5 4"}`);
    names.push({ at: of(last), said: named(k), color });
  }
  if (isSpeedup && m.twin) {
    const of = (row) => y(m.twin[row] * f[m.drafts.indexOf(m.k)]);
    trace(of, "stroke:var(--dense);stroke-width:1.8;stroke-dasharray:1 5;stroke-linecap:round");
    names.push({ at: of(last), start: of(s.rows[0]), said: "dense model", color: "dense" });
  }
  beside(m, axis).forEach((pin) => {
    const color = `pin-${m.pins.indexOf(pin) + 1}`, at = Math.min(pin.last, m.last);
    followed(inside, pin, axis, pin.f, s, pin.ranges, `stroke:var(--${color});stroke-width:2.2;stroke-dasharray:7 4`);
    names.push({ at: y(servedAt(pin, axis, pin.f, at, pin.ranges)), said: pin.name.length > 17 ? `${pin.name.slice(0, 16)}…` : pin.name, color });
  });
  followed(inside, m, axis, f, s, ranges, "stroke:var(--page);stroke-width:7;stroke-linecap:round", "stroke:var(--schedule);stroke-width:4;stroke-linecap:round");
  names.push({ at: y(servedAt(m, axis, f, m.last, ranges)), said: m.pins.length ? "now" : ranges.length > 1 ? "K by batch" : named(ranges[0].k), color: "schedule", bold: true });
  ends(svg, names, s, x(m.last));
  if (isSpeedup) points(inside, m, s);
  strips(svg, s, ranges, m, batch);
  const px = x(batch), value = valueAt(m, axis, f, batch, m.drafts.indexOf(state.k)), said = `batch ${whole(batch)}`, half = said.length * 3.6 + 9;
  const middle = Math.min(Math.max(px, half), width - half);
  add(line(`M${px},22V${box.top}M${px},${box.top + SASH - 4}V${box.bottom}`, "stroke:var(--ink);stroke-width:1.4"));
  add(dot(px, y(value), 7, "fill:var(--schedule);stroke:var(--page);stroke-width:2.5", said));
  add(el("rect", { x: middle - half, y: 0, width: 2 * half, height: 23, rx: 11.5, style: "fill:var(--ink)" }));
  add(label(middle, 16, said, "note", "middle", "fill:var(--page)"));
  for (let tick = 1; tick <= s.end; tick *= s.narrow ? 4 : 2) add(label(x(tick), box.bottom + 60, whole(tick), "tick"));
  add(label(box.left + wide / 2, box.bottom + 78, "batch", "tick"));
  return { svg, s };
}

/** What decides the gain where, by batch: colored, with its name where it has room. */
function zones(svg, zones, s, m) {
  let from = s.box.left;
  for (const [kind, last] of zones) {
    const to = Math.min(s.x(Math.min(last + 0.5, m.last)), s.box.right);
    zone(svg, kind, m.zone_names[kind], from, to, s.box);
    from = to;
  }
}

function valueAt(m, axis, f, batch, k) {
  const [row, share, after] = between(m, batch), { of } = AXES[axis];
  return mixed(share, of(m, f, row, k), of(m, f, after, k));
}

/** What a configuration gives at a batch. */
const servedAt = (m, axis, f, batch, ranges) => valueAt(m, axis, f, batch, m.drafts.indexOf(scheduled(ranges, batch)));

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
    group.append(area(span(ends), "fill:var(--schedule);opacity:.13"));
  }
}

/** The line of what a configuration serves, in each of some styles. */
function followed(group, m, axis, f, s, ranges, ...styles) {
  for (const range of ranges) {
    const k = m.drafts.indexOf(range.k);
    const d = path(along(m, range, (batch) => [s.x(batch), s.y(valueAt(m, axis, f, batch, k))]));
    group.append(...styles.map((style) => line(d, style)));
  }
}

/** Pinned setups that have a figure on an axis. */
const beside = (m, axis) => m.pins.filter((pin) => pin.largest > 0 && (axis !== "usd" || pin.usd_per_hour !== null));

/** Published runs and the user's own; each group has its name at the point where that covers least. */
function points(group, m, s) {
  const places = [...m.published, ...m.own].map(([batch, k, value, same, source, random, color, name]) => {
    const px = s.x(batch), py = s.y(value), said = `${value.toFixed(2)}×, batch ${whole(batch)}, ${k === null ? "K not stated" : named(k)}. ${source}`;
    const css = random || color === "other" ? `fill:none;stroke:var(--${color});stroke-width:1.3` : `fill:var(--${color});stroke:var(--page);stroke-width:.8`;
    const made = same ? diamond(px, py, 5, css) : dot(px, py, 4, css, "");
    made.append(el("title", {}, said));
    group.append(made);
    return { px, py, color, name };
  });
  const full = [...places];
  for (const name of new Set(places.map((one) => one.name))) {
    const half = name.length * 3.3, near = places.filter((one) => one.name === name).flatMap(({ px, py, color }) => [-13, 21].map((by) => ({ px: Math.min(Math.max(px, s.box.left + half), s.box.right - half), py: py + by, color })));
    const covered = (at) => full.filter((one) => Math.abs(one.px - at.px) < (one.half || 6) + half && Math.abs(one.py - at.py + 4) < 12).length + 99 * (at.py > s.box.bottom || at.py < s.box.top + SASH);
    const best = near.reduce((one, other) => (covered(other) < covered(one) ? other : one));
    full.push({ ...best, half });
    group.append(label(best.px, best.py, name, "note halo", "middle", `fill:var(--${best.color})`));
  }
}

/** Experts that a step loads, and which K rules where. */
function strips(svg, s, ranges, m, batch) {
  const top = s.box.bottom + 4, most = Math.max(...m.drafts, 1), aside = (y, said) => s.narrow || svg.append(label(s.box.right + 10, y, said, "end", "start", "fill:var(--faint)"));
  if (m.loaded) {
    const places = [...s.rows.map((row) => s.x(m.batches[row])), s.x(m.last)];
    s.rows.forEach((row, i) => {
      const from = i ? (places[i - 1] + places[i]) / 2 : places[0], to = (places[i] + places[i + 1]) / 2;
      svg.append(rect(from, top, to - from + 0.3, 18, `fill:var(--experts);opacity:${0.06 + 0.86 * m.loaded[row] ** 1.2}`));
    });
    const taken = [];
    for (const at of [batch, 1, m.last, Math.round(m.last ** 0.25), Math.round(Math.sqrt(m.last)), Math.round(m.last ** 0.75)]) {
      const share = m.loaded[between(m, Math.min(at, m.last))[0]], px = Math.min(Math.max(s.x(at), s.box.left + 16), s.x(m.last) - 18);
      if (taken.some((one) => Math.abs(one - px) < 60)) continue;
      taken.push(px);
      svg.append(label(px, top + 13, percent(share), "note", "middle", share > 0.5 ? "fill:var(--page)" : ""));
    }
    aside(top + 13, "experts loaded");
  }
  const below = top + (m.loaded ? 22 : 0);
  ranges.forEach((range, i) => {
    const from = s.x(range.first), to = i + 1 < ranges.length ? s.x(ranges[i + 1].first) : s.x(Math.min(range.last, m.end)), wide = to - from;
    svg.append(rect(from, below, Math.max(wide - 2, 1), 18, `fill:var(--schedule);opacity:${0.05 + (0.37 * range.k) / most}`));
    const said = wide > 66 && (!i || !range.k) ? named(range.k) : wide > 13 ? String(range.k) : "";
    svg.append(label(from + wide / 2 - 1, below + 13, said, "note", "middle", "fill:var(--schedule)"));
  });
  aside(below + 13, "draft K");
}
