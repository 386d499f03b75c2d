// The answer from the draws: the rules of predict/curve.py, answers/best_k.py, answers/schedule.py and
// answers/summary.py once more, so that a slider needs no server. tests/e2e/test_live_answer.py holds the two together.

/** Payload of show/live_answer.py, its draws unpacked: logs[row][column][draw]. */
function unpack(data) {
  const kinds = data.drafts.length - 1, rows = data.batches.length, { n } = data.draws;
  const bytes = Uint8Array.from(atob(data.draws.data), (one) => one.charCodeAt(0));
  const draws = new Float32Array(bytes.buffer);
  const logs = [];
  for (let row = 0; row < rows; row++) {
    logs.push([new Float64Array(n)]);
    for (let kind = 0; kind < kinds; kind++) {
      const from = (row * kinds + kind) * n;
      logs[row].push(Float64Array.from(draws.subarray(from, from + n), Math.log));
    }
  }
  return { ...data, n, logs, x: data.batches.map(Math.log) };
}

/** What each K accepts at a length of the slider, over what it accepts in the payload. */
function factors(m, length) {
  if (!m.accepted || length === m.accepted.now) return m.drafts.map(() => 1);
  const { lengths, carried, carried_now } = m.accepted, last = lengths.length - 1;
  const place = Math.min(Math.max((length - lengths[0]) / (lengths[1] - lengths[0]), 0), last);
  const low = Math.min(Math.floor(place), last - 1), share = place - low;
  return m.drafts.map((_, k) => ((1 - share) * carried[low][k] + share * carried[low + 1][k]) / carried_now[k]);
}

/** Between which rows of the payload a batch lies, and how far along: linear in log batch. */
function between(m, batch) {
  const x = Math.log(batch), last = m.x.length - 1;
  if (last === 0) return [0, 0];
  let row = 0;
  while (row < last - 1 && m.x[row + 1] <= x) row++;
  return [row, Math.min(Math.max((x - m.x[row]) / (m.x[row + 1] - m.x[row]), 0), 1)];
}

/** A positive table [row][column] at a batch: log value linear in log batch. */
function at(m, table, batch, column) {
  const [row, share] = between(m, batch);
  if (share === 0) return table[row][column];
  if (share === 1) return table[row + 1][column];
  return Math.exp((1 - share) * Math.log(table[row][column]) + share * Math.log(table[row + 1][column]));
}

/** Speedups [column][draw] at a batch, before any change of the accepted length. */
function drawn(m, batch) {
  const [row, share] = between(m, batch);
  return m.drafts.map((_, k) => {
    const own = m.logs[row][k], next = share ? m.logs[row + 1][k] : own;
    return own.map((one, i) => Math.exp((1 - share) * one + share * next[i]));
  });
}

/** predict.curve.draft_odds for one batch: loss, noise, chances; f scales each K. */
function odds(values, f, allowed) {
  const kinds = values.length, n = values[0].length;
  const loss = new Float64Array(kinds), pBest = new Float64Array(kinds), pGain = new Float64Array(kinds);
  const lost = values.map(() => new Float64Array(n));
  for (let i = 0; i < n; i++) {
    let best = 0;
    for (let k = 0; k < kinds; k++) best = Math.max(best, values[k][i] * f[k]);
    for (let k = 0; k < kinds; k++) {
      const own = values[k][i] * f[k];
      lost[k][i] = 1 - own / best;
      loss[k] += lost[k][i] / n;
      pBest[k] += (own >= best - 1e-12) / n;
      pGain[k] += (own > 1) / n;
    }
  }
  const may = choosable(allowed, kinds);
  let least = -1;
  for (let k = 0; k < kinds; k++) if (may[k] && (least < 0 || loss[k] < loss[least])) least = k;
  const noise = lost.map((own, k) => {
    const mean = loss[k] - loss[least];
    let sum = 0;
    for (let i = 0; i < n; i++) sum += (own[i] - lost[least][i] - mean) ** 2;
    return Math.sqrt(sum / n) / Math.sqrt(n);
  });
  return { loss, noise, pBest, pGain };
}

/** All K where none is allowed. */
function choosable(allowed, kinds) {
  return allowed && allowed.some(Boolean) ? allowed : Array(kinds).fill(true);
}

/** predict.curve.excess_loss: beyond the least and the noise; infinite where a K is not allowed. */
function excess(loss, noise, allowed) {
  const may = choosable(allowed, loss.length);
  let least = Infinity;
  for (let k = 0; k < loss.length; k++) if (may[k]) least = Math.min(least, loss[k]);
  return Array.from(loss, (own, k) => (may[k] ? Math.max(own - least - noise[k] - 1e-12, 0) : Infinity));
}

/** predict.curve.recommended: the smallest K whose loss is the least within the noise. */
function recommended(found, allowed) {
  return excess(found.loss, found.noise, allowed).indexOf(0);
}

/** Which K keep the limit on time per output token at a batch. */
function within(m, batch, f) {
  return m.limit_ms === null ? null : m.drafts.map((_, k) => at(m, m.tpot_ms, batch, k) / f[k] <= m.limit_ms);
}

/** Column of the K that the user's own speedups name at a batch; -1 beyond them, and at another accepted length. */
function measured(m, batch, length) {
  return m.accepted && length !== m.accepted.now ? -1 : m.drafts.indexOf(m.yours.find(([first, last]) => first <= batch && batch <= last)?.[2]);
}

/** answers.own_gap.as_measured: column of the K that is drafted, the measured one; beyond the measured batches the model's, up to the last of theirs, and before them to the longest. */
function drafted(m, batch, length, modelled) {
  const yours = measured(m, batch, length), last = m.yours[m.yours.length - 1];
  if (yours >= 0 || !last || measured(m, last[1], length) < 0) return yours >= 0 ? yours : modelled;
  const longest = batch > last[1] ? last[2] : Math.max(...m.yours.map((one) => one[2])) || Infinity;
  return Math.min(modelled, longest === Infinity ? modelled : m.drafts.indexOf(longest));
}

/** Everything of one batch: odds, the K that is drafted, and of each K its figures. */
function outcome(m, batch, length) {
  const f = factors(m, length), allowed = within(m, batch, f), yours = measured(m, batch, length);
  const found = odds(drawn(m, batch), f, allowed), modelled = recommended(found, allowed), chosen = drafted(m, batch, length, modelled);
  const rows = m.drafts.map((k, i) => {
    const speedup = at(m, m.speedup, batch, i) * f[i];
    return {
      k,
      speedup,
      low: Math.min(at(m, m.low, batch, i) * f[i], speedup),
      high: Math.max(at(m, m.high, batch, i) * f[i], speedup),
      tpot: at(m, m.tpot_ms, batch, i) / f[i],
      pBest: found.pBest[i],
      pDrawn: found.pGain[i],
      pGain: Math.min(found.pGain[i] * m.record, 1), // answers.advice.gain_chance
      loss: found.loss[i],
      kept: !allowed || allowed[i],
    };
  });
  let tried = chosen;
  if (!chosen) for (let i = 1; i < rows.length; i++) if (!tried || rows[i].loss < rows[tried].loss) tried = i;
  return { rows, chosen, tried, k: m.drafts[chosen], modelled, yours: yours >= 0 };
}

/** What each K loses at every whole batch that fits, and the cheapest path through them. Kept for one length. */
function everyBatch(m, length) {
  if (m.kept && m.kept.length === length) return m.kept;
  const f = factors(m, length), rows = m.batches.map((_, i) => i).filter((i) => m.fixed[i]);
  const x = rows.map((i) => m.x[i]);
  m.drawnRows ??= rows.map((i) => m.logs[i].map((own) => own.map(Math.exp)));
  const judged = m.drawnRows.map((values) => odds(values, f, null));
  const table = { excess: [], best: [], doublings: [] };
  for (let batch = 1, row = 0; batch <= m.last; batch++) {
    const here = Math.log(batch);
    while (row < x.length - 2 && x[row + 1] <= here) row++;
    const share = x.length > 1 ? (here - x[row]) / (x[row + 1] - x[row]) : 0, after = Math.min(row + 1, x.length - 1);
    const mixed = (name) => judged[row][name].map((own, k) => (1 - share) * own + share * judged[after][name][k]);
    const beyond = excess(mixed("loss"), mixed("noise"), within(m, batch, f));
    table.best.push(beyond.indexOf(0));
    table.excess.push(beyond.map((one, k) => (one > m.rules.least ? Infinity : one + m.rules.tie * k)));
    table.doublings.push(Math.log2((batch + 1) / batch));
  }
  m.kept = { length, table, path: smoothed(table, m.rules.switch).map((k, i) => drafted(m, i + 1, length, k)) };
  return m.kept;
}

/** answers.schedule.k_by_batch: ranges [{first, last, k}] over the whole batches that fit. */
function schedule(m, length) {
  const ranges = [];
  everyBatch(m, length).path.forEach((k, i) => {
    const open = ranges[ranges.length - 1];
    if (open && open.k === m.drafts[k]) open.last = i + 1;
    else ranges.push({ first: i + 1, last: i + 1, k: m.drafts[k] });
  });
  return ranges;
}

/** The cheapest path through the batches; no speculation at both ends as far as it is recommended. */
function smoothed(table, price) {
  const n = table.excess.length, kinds = table.excess[0].length, came = [];
  let total = table.excess[0].map((one) => one * table.doublings[0]);
  for (let i = 1; i < n; i++) {
    let best = 0;
    for (let k = 1; k < kinds; k++) if (total[k] < total[best]) best = k;
    const jump = total[best] + price;
    came.push(total.map((own, k) => (jump < own ? best : k)));
    total = total.map((own, k) => Math.min(jump, own) + table.doublings[i] * table.excess[i][k]);
  }
  const path = Array(n);
  path[n - 1] = total.indexOf(Math.min(...total));
  for (let i = n - 1; i > 0; i--) path[i - 1] = came[i - 1][path[i]];
  const first = table.best.findIndex(Boolean), last = table.best.findLastIndex(Boolean);
  return path.map((k, i) => (first >= 0 && i >= first && i <= last ? k : 0));
}

/** A share as whole percent, a half to the even one as in every text of the library. */
function percent(share) {
  const whole = Math.round(100 * share);
  return `${whole - (whole - 100 * share === 0.5 && whole % 2)}%`;
}

/** Why the K that is drafted is not the fastest row, in words; empty where it is. */
function besides(now) {
  const own = now.rows[now.chosen], kept = now.rows.filter((one) => one.kept === own.kept);
  const fast = kept.reduce((best, one) => (one.speedup > best.speedup + 0.005 ? one : best), own), lost = (one) => `${(100 * one.loss).toFixed(1)}%`;
  const said = fast.loss > own.loss ? `faster centrally, but loses more on average (${lost(fast)}, not ${lost(own)}).` : "tied; the smaller stands.";
  return now.yours ? "Modelled; yours decide." : fast === own ? "" : `K = ${fast.k}: ${said}`;
}

/** answers.by_batch.ranges_to_serve: the headline's K throughout where one K is enough, else the schedule. */
function served(m, now, ranges) {
  return now.k && m.enough[now.chosen] && !m.yours.length ? [{ first: 1, last: ranges[ranges.length - 1].last, k: now.k }] : ranges;
}

/** That K by batch runs another K here than the headline's, and what it costs; empty where it does not. */
function keeps(now, k) {
  const own = now.rows[now.chosen], other = now.rows.find((one) => one.k === k), slower = other ? 100 * (1 - other.speedup / own.speedup) : 0;
  return k === own.k ? "" : `K by batch keeps ${k} here (${slower >= 0.05 ? `${slower.toFixed(1)}% slower, ` : ""}fewer switches) · `;
}

/** K of the schedule at a batch; beyond its end the last. */
function scheduled(ranges, batch) {
  return (ranges.find((one) => batch <= one.last) || ranges[ranges.length - 1]).k;
}

/** answers.summary.accepted_length_flips, and the batch at which the schedule changes to a K other than that of the headline: [{what, above, value, k}]. */
function flips(m, batch, length, ranges) {
  const found = [], values = drawn(m, batch);
  const chosen = (at) => {
    const f = factors(m, at), allowed = within(m, batch, f);
    return m.drafts[recommended(odds(values, f, allowed), allowed)];
  };
  if (m.accepted && measured(m, batch, length) < 0) {
    const own = chosen(length);
    for (const end of [m.accepted.lengths[0], m.accepted.k + 1]) {
      const count = Math.max(2, Math.round(Math.abs(end - length) / 0.06));
      for (let i = 1, last = length; i < count; i++) {
        const here = length + ((end - length) * i) / (count - 1), k = chosen(here);
        if (k !== own) {
          let near = last, far = here, after = k;
          while (Math.abs(far - near) > 0.0005) {
            const middle = (near + far) / 2, there = chosen(middle);
            if (there === own) near = middle;
            else [far, after] = [middle, there];
          }
          found.push({ what: "length", above: end > length, value: (near + far) / 2, k: after });
          break;
        }
        last = here;
      }
    }
  }
  const own = outcome(m, batch, length).k, next = ranges.findIndex((one) => batch < one.first && one.k !== own);
  if (next > 0)
    found.push({ what: "batch", above: true, value: ranges[next].first - 1, k: ranges[next].k });
  const before = own ? undefined : ranges.findLast((one) => one.last < batch && one.k);
  if (before) found.push({ what: "batch", above: false, value: before.last + 1, k: before.k });
  return found;
}

/** Where the schedule gains most, dips and peaks again, and stops paying. */
function landmarks(m, length, ranges) {
  const f = factors(m, length);
  const points = m.batches
    .map((batch, row) => ({ batch, row, column: m.drafts.indexOf(scheduled(ranges, batch)) }))
    .filter((one) => one.batch <= m.last && m.fixed[one.row])
    .map((one) => ({ ...one, speedup: m.speedup[one.row][one.column] * f[one.column] }));
  const marks = {}, drafting = points.filter((one) => one.column);
  if (!drafting.length || m.yours.length) return marks; // of the model, where the user's own speedups decide
  const top = (list) => list.reduce((best, one) => (one.speedup > best.speedup ? one : best));
  marks.sweet = top(drafting);
  let depth = 1.06;
  for (let i = 1; i < points.length - 1; i++) {
    const left = top(points.slice(0, i)), right = top(points.slice(i + 1));
    const here = Math.min(left.speedup, right.speedup) / points[i].speedup;
    if (points[i].column && here >= depth) {
      depth = here;
      const column = points[i].column, extra = (one) => m.loading[one.row][column];
      const cliff = m.cliffs.some(([first, last]) => points[i].batch >= first && points[i].batch <= last);
      const loaded = (1 + extra(points[i])) / (1 + extra(right)); // a cause has to explain at least half of the depth
      const cause = cliff ? "cliff" : loaded - 1 >= (here - 1) / 2 ? "experts" : "";
      marks.dip = { ...points[i], cause, grows: m.experts[points[i].row][column] - 1 };
      marks.peak = right.batch === marks.sweet.batch ? null : right;
    }
  }
  const end = ranges[ranges.length - 1];
  if (!end.k && ranges.length > 1) marks.end = end.first;
  return marks;
}

/** Speedups of runs: `1.06× and 1.15×`, of more the ends. */
function spread(runs) {
  const said = runs.map((run) => run[2]).sort((a, b) => a - b).map((value) => `${value.toFixed(2)}×`), last = said.pop();
  return said.length > 1 ? `${said[0].slice(0, -1)}–${last}` : [...said, last].join(" and ");
}

/** Published runs of this setup at a batch, of a K or of none that is stated. */
function publishedAt(m, batch, n) {
  return m.published.filter((one) => one[3] && one[0] === batch && (one[1] === n || one[1] === null));
}

/** Speedups published at a batch and K in words, the K where the batch has runs of others. */
function publishedText(m, batch, n, runs) {
  const all = m.published.filter((one) => one[3] && one[0] === batch);
  return `${spread(runs)} published${all.length > runs.length ? ` at K\u00a0=\u00a0${n}` : ""}`;
}

/** What published runs of this setup and the user's own say that our likely range does not, in words; those at this batch and K first.
 * brief: the headline has those; counted: the line has said how many there are. */
function against(m, length, batch, n, brief = false, counted = false) {
  const f = factors(m, length), same = m.published.filter((one) => one[3]);
  const side = ([batch, k, value]) => {
    const [row, share] = between(m, batch), next = Math.min(row + 1, m.batches.length - 1);
    const at = (table, i) => (table[row][i] ** (1 - share)) * (table[next][i] ** share) * f[i];
    const best = m.drafts.reduce((top, _, i) => (at(m.speedup, i) > at(m.speedup, top) ? i : top), 0);
    const i = k === null ? best : m.drafts.indexOf(k);
    return i < 0 ? 0 : value > at(m.high, i) ? 1 : value < at(m.low, i) ? -1 : 0;
  };
  const random = (runs) => (runs.every((run) => run[5]) ? ", random tokens" : "");
  const told = (runs, mark, one, many, near = []) => {
    const [low, high] = [runs.filter((run) => side(run) < 0), runs.filter((run) => side(run) > 0)], odd = low.length < high.length ? high : low;
    const where = odd === low ? "below" : "above", of = odd.length === runs.length ? odd.length : `${odd.length} of ${runs.length}`;
if (brief && near.length) return odd.length ? [["", ` · ${mark} ${counted ? `${odd.length} of them` : `${of} ${many}`} ${where} the range${random(odd)}`]] : [];
    if (near.length) return [["", ` · ${mark} published here: `], [spread(near), random(near) + (odd.length ? `; ${of} ${where} the range` : "")]];
    if (!odd.length) return [];
    const at = [...new Set(odd.map((run) => run[0]))].sort((a, b) => a - b), ends = at.length > 2 ? [at[0], at[at.length - 1]] : at;
    const places = ` at batch ${ends.map((one) => one.toLocaleString("en")).join(at.length > 2 ? " to " : " and ")}`;
    return [["", ` · ${mark} ${of} ${runs.length > 1 ? many : one} ${where} the range: `], [spread(odd), places + random(odd)]];
  };
  const times = (runs) => `${runs.map((one) => one[2]).sort((a, b) => a - b)[runs.length >> 1].toFixed(2)}×`;
  const here = m.own.filter((one) => one[0] === batch), alike = here.filter((one) => one[1] === n), drafts = [...new Set(here.map((one) => one[1]))];
  const at = alike.length ? [[times(alike), " here"]] : drafts.map((k) => [times(here.filter((one) => one[1] === k)), ` here${k === null ? "" : `, K = ${k}`}`]);
  const odd = at.length ? [] : told(m.own, "●", "run of yours", "runs of yours");
  const said = odd.length ? [] : at.flatMap((one, i) => (i ? [["", ", "], one] : [one]));
  const mine = said.length ? [["", " · ● you measured "], ...said] : odd;
  const near = publishedAt(m, batch, n), published = told(same, "◆", "published run", counted ? "runs" : "published runs", near);
  const others = near.length || published.length ? [] : same.filter((one) => one[0] === batch);
  const kinds = [...new Set(others.map((one) => one[1]))].join(", ");
  return [...mine, ...published, ...(others.length ? [["", " · ◆ published here: "], [spread(others), ` at K = ${kinds}`]] : [])];
}

/** Batch from which on the likely range of the schedule's K reaches below 1 as far as it drafts; 0: none. */
function mayLose(m, length, ranges) {
  const f = factors(m, length);
  let from = 0;
  for (const { first, last, k } of ranges) {
    const i = m.drafts.indexOf(k);
    for (let batch = first; k && batch <= last; batch++) from = at(m, m.low, batch, i) * f[i] < 1 ? from || batch : 0;
  }
  return from;
}

/** Headline where the user's own speedups decide otherwise than the model, or lie outside its range; else null. */
function yourVerdict(m, batch, length, now) {
  const own = now.rows[now.chosen], model = now.rows[now.modelled], say = (k) => (k ? `K = ${k}` : "no drafts");
  const runs = m.own.filter((one) => one[0] === batch && one[1] === own.k).map((one) => one[2]).sort((a, b) => a - b), value = runs[runs.length >> 1], times = (one) => `${one.toFixed(2)}×`;
  if (own === model && !(value < own.low || value > own.high)) return null;
  const title = `Yours: ${say(own.k)}${runs.length ? `: ${times(value)}` : ""} at batch ${batch.toLocaleString("en")} (model: ${own === model ? "" : `${say(model.k)}, `}${times(model.speedup)})`;
  const { k, speedup, low, high } = now.rows[now.tried], range = `, ${low.toFixed(1)}–${high.toFixed(1)}× likely`;
  return { title, parts: [["", `model for ${say(k)}: `], [times(speedup), range], ...against(m, length, batch, own.k)] };
}

/** Headline and the figures of the line below it. */
function verdict(m, batch, length, now, ranges) {
  const own = now.rows[now.chosen], tried = now.rows[now.tried], plain = now.rows[0];
  const ms = (one) => one.tpot.toPrecision(3);
  const tokens = (k) => `${k} token${k > 1 ? "s" : ""}`;
  if (batch > m.largest) {
    const title = m.largest ? `Does not fit: ${m.largest.toLocaleString("en")} sequences at most` : "Does not fit in memory";
    return { title, parts: [["", m.fit ? `${m.fit.title}.` : ""]] };
  }
  if (now.rows.length === 1) return { title: `Plain decoding: ${ms(plain)} ms per token`, parts: [["", "nothing is drafted"]] };
  if (now.rows.every((one) => !one.kept)) {
    const best = Math.min(...now.rows.map((one) => one.tpot)).toPrecision(3);
    return { title: `No K keeps ${m.limit_ms} ms`, parts: [[best, " ms per token at best"]] };
  }
  const yours = now.yours && yourVerdict(m, batch, length, now);
  const moved = Math.abs(tried.pGain - tried.pDrawn) >= m.rules.counted;
  const sure = (one) => (one < 0.995 ? percent(one) : ">99%");
  const chance = [sure(tried.pGain), ` chance of gain${moved ? ` (${sure(tried.pDrawn)} modelled; ${m.counting})` : ""} · `];
  const borrowed = m.borrowed && (!m.accepted || length === m.accepted.now) ? [["", "acceptance borrowed from "], [m.borrowed, " · "]] : [];
  if (yours) return yours;
  const end = ranges[ranges.length - 1], stops = (end.first - 1).toLocaleString("en");
  if (!now.chosen) {
    const before = end.k || end.first === 1 || batch < end.first ? "" : ` · pays to batch ${stops}`;
    const parts = [
      ["", `K = ${tried.k} would run at `], [`${tried.speedup.toFixed(2)}×`, ", "],
      chance, ...borrowed, [ms(plain), ` ms per token without${before}`],
    ];
    const title = tried.speedup > 1 && tried.kept ? "Do not draft: a gain is too unsure" : "Do not draft: no K pays here";
    return { title, parts };
  }
  const gain = `${own.speedup.toFixed(2)}×`, here = publishedAt(m, batch, own.k);
  const apart = here.length > 0 && (here.every((one) => one[2] < own.low) || here.every((one) => one[2] > own.high));
  const most = Math.min(m.largest, m.batches[m.batches.length - 1]), to = most.toLocaleString("en");
  const lost = mayLose(m, length, ranges);
  const byBatch = ranges.some((one) => one.k && one.k !== own.k);
  const isFull = end.k && most === m.largest; // where memory ends, no gain does
  const until = isFull ? `to full memory (${to})` : `to ${byBatch ? "" : "batch "}${end.k ? `${to}+` : stops}`;
  const risk = lost && lost <= batch ? "can lose here" : `can lose from ${lost.toLocaleString("en")}`;
  const pays = `${byBatch ? "by batch, " : ""}pays ${lost && !isFull ? "on average " : ""}${until}${lost ? `, ${risk}` : ""}`;
  const said = apart ? `${gain} modelled, ${publishedText(m, batch, own.k, here)}` : `${gain} faster`;
  const title = own.speedup < m.rules.hardly ? `Hardly worth it: draft ${own.k}, ${gain}` : `Draft ${tokens(own.k)}: ${said}`;
  const other = against(m, length, batch, own.k, apart && own.speedup >= m.rules.hardly, moved);
  const [row, share] = between(m, batch), tier = m.tiers[share < 0.5 ? row : row + 1][now.chosen];
  const times = other.length || borrowed.length ? [] : [["", " · "], [ms(own), `\u00a0ms/token, ${ms(plain)}\u00a0without`]];
  const range = [`${own.low.toFixed(1)}–${own.high.toFixed(1)}×`, ` likely (${tier}) · `];
  return { title, parts: [range, chance, ...borrowed, ["", keeps(now, scheduled(ranges, batch)) + pays], ...times, ...other] };
}
