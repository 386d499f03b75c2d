// The live answer: headline, sliders, chart, command, table and flips from one payload of show/live_answer.py.
// What comes from users or files is set as text, never as markup.

/** One slider with its exact value beside it; `steps(value, direction)` is what an arrow key goes to. */
function slider(label, id, most, moved, done, steps) {
  let later = 0;
  const range = node("input", { type: "range", id, min: 0, max: most, step: "any",
    oninput: () => { one.held = true; note.textContent = ""; moved(Number(range.value), true); },
    onchange: () => { one.held = false; done(); },
    onkeydown: (event) => {
      const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 4, PageDown: -4 }[event.key];
      if (!way) return;
      event.preventDefault();
      for (let i = 0; i < Math.abs(way); i++) moved(steps(Math.sign(way)), false);
      one.held = true; // until it is sent: an answer that arrives meanwhile must not take the key back
      clearTimeout(later);
      later = setTimeout(() => { one.held = false; done(); }, 400);
    } });
  const exact = node("input", { type: "number", step: "any", "aria-label": `${label}, exact value`,
    oninput: () => { one.typing = true; }, // an answer to what was asked before leaves it alone
    onblur: () => { one.typing = false; },
    onchange: () => {
      one.typing = false;
      const typed = Number(exact.value), isOutside = exact.value && (typed < one.least || typed > one.most);
      note.textContent = isOutside ? `${typed} not taken: ${one.beyond}.` : "";
      if (isOutside) exact.value = one.shown;
      else if (exact.value) { moved(typed, false); done(); }
    } });
  const name = node("label", { for: id }, label), note = node("div", { class: "refused", role: "status" });
  const one = { box: node("div", "slider", node("span", {}, name, exact), range, note), range, exact, name, note, held: false, least: 1 };
  return one;
}

const HEADS = { K: "Tokens drafted a step", Speedup: "", "80% range": "8 in 10 measurements lie in it", "Best in": "Chance that this K is the best of all", "ms/token": "" };

function build(root) {
  const v = { batch: 1, length: 1, waiting: false };
  v.title = node("h1", {});
  v.figures = node("p", "reason");
  v.how = button("how", "How computed", () => v.tell("how", { batch: v.batch, k: v.now.k || v.m.k }));
  v.csv = node("a", "how", "CSV");
  v.wider = button("fill", "", () => v.tell("wider", true));
  v.pin = button("pin", "+ Pin", () => { v.unpinnable.textContent = v.m.unpinnable; if (!v.m.unpinnable) v.tell("pins", {}); }, { title: "Keep this setup beside others" });
  v.unpinnable = node("p", { class: "limit", role: "status" });
  v.pins = node("div", "scroll");
  v.remarks = node("details", {});
  v.said = node("span", { class: "said", role: "status" });
  v.amber = node("p", "amber");
  const clipped = (value, low, high) => Math.min(Math.max(value, low), high), done = () => commit(v);
  v.batchSlider = slider("Batch", "batch", 1, (value, isPlace) => {
    v.batch = clipped(Math.round(isPlace ? 2 ** value : value), 1, v.m.end);
    update(v);
  }, done, (way) => (way > 0 ? Math.max(v.batch + 1, Math.round(v.batch * 1.09)) : Math.min(v.batch - 1, Math.round(v.batch / 1.09))));
  v.lengthSlider = slider("Accepted length", "length", 1, (value) => {
    v.length = clipped(Math.round(value * 100) / 100, 1.05, v.m.accepted.k + 1);
    update(v);
  }, done, (way) => v.length + 0.05 * way);
  v.texts = node("div", { class: "texts", role: "group", "aria-label": "Kind of text" });
  v.sliders = node("div", "sliders", v.batchSlider.box, v.lengthSlider.box, v.texts);
  v.heading = node("h2", {});
  v.axes = node("div", { class: "axes", role: "radiogroup", "aria-label": "Axis" });
  v.plot = node("div", { class: "plot", style: "min-height:340px" });
  v.launch = node("section", "launch");
  v.memory = node("span", {});
  v.uncounted = node("p", {});
  v.counts = node("details", {}, node("summary", {}, "Not counted"), v.uncounted);
  v.every = node("details", { class: "every", ontoggle: () => { if (v.m) drawn_again(v); } });
  v.table = node("div", {});
  v.limit = node("p", "limit");
  v.flips = node("div", "flips");
  const main = node("section", {}, node("div", "head", v.axes, v.heading, v.pin), v.unpinnable, v.plot, v.pins, node("div", "memory", v.memory, v.counts));
  v.every.append(node("summary", {}, "Every K"), v.table, v.limit);
  v.answers = node("div", {}, v.flips, v.every);
  const side = node("aside", {}, v.sliders, v.launch, v.answers, v.remarks, v.how, v.csv);
  v.box = node("div", "live", node("header", {}, v.title, v.figures, v.amber, v.wider, v.said), node("div", "grid", main, side));
  root.append(v.box);
  pointer(v);
  v.seen = new ResizeObserver(() => { if (v.m && v.plot.clientWidth !== v.width) drawn_again(v); });
  v.seen.observe(v.plot);
  return v;
}

/** Take a payload: what the user is just moving stays as it is. */
function take(v, data) {
  const first = !v.m;
  v.m = unpack(data);
  if (!v.batchSlider.held) v.batch = data.batch;
  if (!v.lengthSlider.held) v.length = data.accepted ? data.accepted.now : 1;
  v.waiting = false;
  KEPT.taken = data.batch;
  if (KEPT.pinned !== null && !data.drafts.includes(KEPT.pinned)) KEPT.pinned = null;
  if (KEPT.axis === "usd" && data.usd_per_hour === null) KEPT.axis = "speedup";
  v.batchSlider.range.max = Math.log2(v.m.end);
  v.lengthSlider.box.hidden = !data.accepted;
  v.lengthSlider.range.min = 1.05;
  const most = v.m.end, at = data.accepted ? data.accepted.k : 1;
  Object.assign(v.batchSlider, { most, beyond: `a batch is from 1 to ${whole(most)}` });
  const other = "for another K type a length as 3.2@4 under More";
  Object.assign(v.lengthSlider, { least: 1.05, most: at + 1, beyond: `a round of K = ${at} emits from 1.05 to ${at + 1} tokens; ${other}` });
  v.lengthSlider.range.max = at + 1;
  v.lengthSlider.name.textContent = `Accepted length, K = ${at}`;
  v.lengthSlider.name.title = data.accepted ? data.accepted.source : "";
  const count = data.warnings.length;
  v.remarks.hidden = !count;
  v.remarks.replaceChildren(node("summary", {}, `${count} remark${count > 1 ? "s" : ""}`), node("div", {}, data.warnings.map((one) => node("p", {}, one))));
  v.limit.textContent = data.limit_ms === null ? "" : `Struck through: over the limit of ${data.limit_ms} ms per token.`;
  v.csv.download = `speedup-${data.key}.csv`;
  v.csv.href = `data:text/csv,${encodeURIComponent(data.csv)}`;
  axes(v);
  texts(v);
  rows(v);
  update(v);
  if (!first) announce(v);
}

/** Say the answer to a screen reader: once it is settled on, not at every step of a slider. */
function announce(v) {
  const said = `${v.title.textContent}. ${v.figures.textContent}`;
  if (v.said.textContent !== said) v.said.textContent = said;
}

/** Tell Python where the sliders stand, which brings its exact answer and the command. */
function commit(v) {
  announce(v);
  const { batch, accepted } = v.m, moved = {};
  if (v.batch !== batch) moved.batch = v.batch;
  if (accepted && v.length !== accepted.now) moved.accepted = `${+v.length.toFixed(2)}@${accepted.k}`;
  if (Object.keys(moved).length) ask(v, moved);
}

/** Ask Python for another answer; until it comes the command is marked as old. */
function ask(v, moved) {
  v.waiting = true;
  launch(v);
  v.tell("moved", moved);
}

/** Slots of the line below the headline, where the batch fits and where it does not. */
const LINES = [["cause", "range", "time", "slow", "alternative", "admit"], ["memory"]];

function update(v) {
  const { m } = v, isOver = v.batch > m.largest;
  v.now = outcome(m, v.batch, v.length);
  const said = (slot) => say(m, slot, v.now.facts);
  v.ranges = v.now.ranges;
  v.title.replaceChildren(...said("headline").split("*").map((part, i) => (i % 2 ? node("span", {}, part) : part)));
  v.figures.textContent = LINES[isOver ? 1 : 0].map((slot) => said(slot)).filter(Boolean).join(" ");
  const [, caveat, action, does] = said("amber").match(/^(.*?)(?: \[(.+)\]\((\w+)\))?$/);
  v.amber.replaceChildren(caveat, ...(does ? [" ", button("", action, () => ACTIONS[does](v))] : []));
  v.amber.hidden = !caveat;
  v.memory.textContent = said("pool_line");
  v.uncounted.textContent = said("uncounted");
  v.counts.hidden = !v.memory.textContent || !v.uncounted.textContent;
  v.answers.hidden = isOver; // figures of what does not run answer nobody
  v.wider.hidden = !m.wider || !isOver;
  v.wider.textContent = m.wider;
  v.batchSlider.range.value = Math.log2(v.batch);
  v.batchSlider.range.setAttribute("aria-valuetext", `${v.batch} sequences`);
  v.batchSlider.shown = v.batch;
  v.lengthSlider.range.value = v.length;
  v.lengthSlider.range.setAttribute("aria-valuetext", `${v.length.toFixed(2)} tokens`);
  v.lengthSlider.shown = v.length.toFixed(2);
  for (const one of [v.batchSlider, v.lengthSlider]) if (!one.typing) one.exact.value = one.shown;
  drawn_again(v);
  table(v);
  pinned(v);
  launch(v);
  KEPT.last = { key: m.key, batch: v.batch, k: v.now.k || v.now.rows[v.now.tried].k, f: factors(m, v.length) };
  window.dispatchEvent(new CustomEvent("moe-live"));
}

/** What the button of the amber line does. */
const ACTIONS = {
  runs_length: (v) => { v.length = v.now.facts.runs_length; update(v); commit(v); },
  drafters: (v) => { v.tell("moved", { tab: true }); document.querySelector(".st-key-serve_tab").scrollIntoView(); },
  mine: (v) => v.lengthSlider.exact.select(),
};

function finding(v) {
  const ruled = v.ranges.map((one) => `${named(one.k)} from batch ${one.first}`).join(", ");
  const causes = v.now.zones.map(([kind, last]) => `${v.m.zone_names[kind][0]} up to batch ${last}`).join(", ");
  return `${AXES[KEPT.axis].title} by batch. ${v.title.textContent}. ${causes}. Schedule: ${ruled}.`;
}

function drawn_again(v) {
  v.width = v.plot.clientWidth;
  if (!v.width) return;
  const { m, now, batch, length, ranges } = v, { axis } = KEPT, pinned = v.pointed || KEPT.pinned;
  const shown = v.every.open ? m.drafts.filter(Boolean) : pinned ? [pinned] : [];
  const { svg, s } = picture({ m, axis, batch, k: now.k, length, ranges, zones: now.zones, shown, pinned, label: finding(v) }, v.width);
  v.scale = s;
  v.heading.textContent = [axis === "usd" && m.price, !m.largest && "drawn as if it fitted"].filter(Boolean).join(", ");
  v.plot.replaceChildren(svg);
}

function axes(v) {
  const offered = Object.entries(AXES).filter(([name]) => name !== "usd" || v.m.usd_per_hour !== null);
  v.axes.replaceChildren(...offered.map(([name, one]) => {
    const pick = () => { KEPT.axis = name; drawn_again(v); };
    const radio = node("input", { type: "radio", name: "axis", checked: name === KEPT.axis, onchange: pick });
    return node("label", {}, radio, one.name);
  }));
}

/** Kinds of text: solid where the length was measured on it, dashed where it is carried from another. */
function texts(v) {
  v.texts.replaceChildren(...v.m.texts.map(({ name, acceptance, task, title, carried, chosen }) => {
    return button(carried ? "carried" : "", name, () => ask(v, { text: { acceptance, task } }), { title, "aria-pressed": String(chosen) });
  }));
}

/** This setup and the pinned ones at the batch of the handle; a name opens its setup. */
function pinned(v) {
  const { m, batch } = v, kinds = Object.entries(AXES), count = m.pins.length;
  const figures = (one, f, k) => kinds.map(([axis, { show }]) => (batch > one.largest || (axis === "usd" && one.usd_per_hour === null) ? "–" : show(valueAt(one, axis, f, batch, one.drafts.indexOf(k)))));
  const others = m.pins.map((pin, i) => {
    const k = scheduled(pin.ranges, batch), wish = (what) => () => v.tell("pins", { [what]: m.pin_keys[i] });
    return row(`pin-${i + 1}`, button("", pin.name, wish("open"), { title: "Open this setup" }), k, ...figures(pin, pin.f, k), button("", "×", wish("drop"), { "aria-label": `Unpin ${pin.name}` }));
  });
  const heads = [`At batch ${whole(batch)}`, "K", ...kinds.map(([, kind]) => kind.name), ""];
  v.pins.replaceChildren(...(count ? [grid(heads, [row("chosen", `Now: ${m.name}`, v.now.k, ...figures(m, factors(m, v.length), v.now.k), ""), ...others])] : []));
}

/** The table's rows, one for each K; a pinned K keeps its button, and with it the focus. */
function rows(v) {
  const kinds = v.m.drafts.join();
  if (v.kinds === kinds) return;
  v.kinds = kinds;
  v.rows = v.m.drafts.map((k) => {
    const pin = () => { KEPT.pinned = KEPT.pinned === k ? null : k; update(v); };
    const point = (at) => () => { v.pointed = at; drawn_again(v); };
    const one = { k, bar: node("i", {}), share: node("span", {}) };
    one.pin = k ? button("", String(k), pin, { "aria-label": `Show K = ${k} in the chart`, onfocus: point(k), onblur: point(null) }) : "0";
    one.line = row("", one.pin, "", "", node("span", {}, node("span", "bar", one.bar), one.share), "");
    one.line.addEventListener("pointerenter", point(k));
    one.line.addEventListener("pointerleave", point(null));
    return one;
  });
  v.table.replaceChildren(grid(Object.entries(HEADS).map(([name, title]) => node("span", { title }, name)), v.rows.map((one) => one.line)));
}

function table(v) {
  v.now.rows.forEach((own, i) => {
    const one = v.rows[i], [, speedup, band, , ms] = one.line.cells, held = own.k === KEPT.pinned;
    one.line.className = `${own.k === v.now.k ? "chosen" : ""} ${held ? "pinned" : ""} ${own.kept ? "" : "over"}`;
    if (own.k) one.pin.setAttribute("aria-pressed", held);
    speedup.textContent = `${own.speedup.toFixed(2)}×`;
    band.textContent = own.k ? `${own.low.toFixed(2)}–${own.high.toFixed(2)}` : "–";
    one.bar.style.width = one.share.textContent = percent(own.pBest);
    ms.textContent = own.tpot.toPrecision(3);
  });
}

/** What holds for the answer that Python gave; it is marked as old while another one is asked for. */
function launch(v) {
  const { m } = v, isOld = Boolean(v.waiting || v.batch !== m.batch || (m.accepted && v.length !== m.accepted.now));
  for (const part of [v.launch, v.flips]) part.classList.toggle("stale", isOld);
  if (isOld || v.shown === m) return;
  v.shown = m;
  const rows = flips(m, v.ranges).map(([what, value, k]) => row("", `${what} ${value}`, `→ ${named(k)}`));
  v.flips.replaceChildren(...(rows.length ? [node("h2", {}, "Change K when"), grid([], rows)] : []));
  v.launch.replaceChildren(...command(m.command));
}

/** A click on the picture, or dragging on it, moves the handle. */
function pointer(v) {
  const move = (event) => { v.batch = Math.max(v.scale.batch(event.clientX - v.plot.getBoundingClientRect().left), 1); update(v); };
  let closes = false; // a click that closes a menu is not one on the chart
  v.plot.addEventListener("pointerdown", () => { closes = Boolean(document.querySelector("[data-testid=stPopoverBody]")); }, true);
  v.plot.addEventListener("pointermove", (event) => {
    if (closes || !(event.buttons & 1)) return;
    v.batchSlider.held = true;
    move(event);
  });
  v.plot.addEventListener("click", (event) => {
    v.batchSlider.held = false;
    if (closes) return;
    move(event);
    commit(v);
  });
}

export default function (component) {
  const root = component.parentElement, v = (root.live ??= build(root));
  v.tell = component.setTriggerValue;
  take(v, component.data);
}
