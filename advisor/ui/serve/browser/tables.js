// The answer at another batch or accepted length, looked up in the tables of show/answer_tables.py: a case is that of
// the nearest length, a number is interpolated. Nothing is decided here.

const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

/** Curves of a setup with the places of their batches. */
const placed = (data) => ({ ...data, x: data.batches.map(Math.log), end: data.batches[data.batches.length - 1] });

/** Payload of show/live_answer.py, its tables unpacked. */
function unpack(data) {
  const losses = bytes(data.loss);
  return {
    ...placed(data),
    pins: data.pins.map((pin) => ({ ...placed(pin), f: pin.drafts.map(() => 1), ranges: merged(pin.served) })),
    best_share: bytes(data.best_share),
    chance: bytes(data.chance),
    loss: Uint16Array.from({ length: losses.length / 2 }, (_, i) => losses[2 * i] + 256 * losses[2 * i + 1]),
  };
}

const isNow = (m, length) => !m.accepted || length === m.accepted.now;

/** Between which lengths of the table a length lies, and how far along. */
function betweenLengths(m, length) {
  if (!m.accepted) return [0, 0];
  const { lengths } = m.accepted, last = lengths.length - 1;
  let low = 0;
  while (low < last - 1 && lengths[low + 1] <= length) low++;
  return [low, Math.min(Math.max((length - lengths[low]) / (lengths[low + 1] - lengths[low]), 0), 1)];
}

/** Place of the nearest accepted length of the table. */
function nearest(m, length) {
  const [low, share] = betweenLengths(m, length);
  return low + Math.round(share);
}

/** What each K accepts at a length of the slider, over what it accepts today. */
function factors(m, length) {
  const [low, share] = betweenLengths(m, length);
  return m.drafts.map((_, k) => share ? (1 - share) * m.factor[low][k] + share * m.factor[low + 1][k] : m.factor[low][k]);
}

/** Between which rows of the payload a batch lies, and how far along: linear in log batch. */
function between(m, batch) {
  const x = Math.log(batch), last = m.x.length - 1;
  let row = 0;
  while (row < last - 1 && m.x[row + 1] <= x) row++;
  const after = Math.min(row + 1, last);
  return [row, after && Math.min(Math.max((x - m.x[row]) / (m.x[after] - m.x[row]), 0), 1), after];
}

/** Between two positive values, the log value linear. */
const mixed = (share, low, high) => (share === 0 ? low : share === 1 ? high : Math.exp((1 - share) * Math.log(low) + share * Math.log(high)));

/** A positive table [row][column] at a batch. */
function at(m, table, batch, column) {
  const [row, share, after] = between(m, batch);
  return mixed(share, table[row][column], table[after][column]);
}

const column = (values) => values.map((value) => [value]);

/** A share of a packed table [length][row][column] at a batch and length. */
function shareAt(m, table, length, batch, column, unit) {
  const [row, share] = between(m, batch), [low, far] = betweenLengths(m, length), kinds = m.drafts.length, rows = m.batches.length;
  const of = (place, at) => table[(place * rows + at) * kinds + column] / unit;
  const there = (place) => (share ? (1 - share) * of(place, row) + share * of(place, row + 1) : of(place, row));
  return far ? (1 - far) * there(low) + far * there(low + 1) : there(low);
}

/** K of [last batch, K] runs at a batch; beyond their end the last. */
const running = (runs, batch) => runs.find((run) => batch <= run[0]) || runs[runs.length - 1];

/** What the configuration for a batch runs, as [last batch, K] runs, and the K that is best there alone. */
function configuration(m, batch, place, own) {
  const last = m.best[place][m.best[place].length - 1][0], best = running(m.best[place], batch)[1];
  if (own) return { best, runs: running(m.own_served, batch)[1] ? m.own_served : [[last, 0]] };
  const switches = best && running(m.schedule[place], batch)[2] && !m.enough[place][m.drafts.indexOf(best)];
  return { best, runs: switches ? m.schedule[place] : [[last, best]] };
}

/** Neighbouring runs of one K as [{first, last, k}]. */
function merged(runs) {
  const ranges = [];
  for (const [last, k] of runs) {
    const open = ranges[ranges.length - 1];
    if (open && open.k === k) open.last = last;
    else ranges.push({ first: open ? open.last + 1 : 1, last, k });
  }
  return ranges;
}

/** Everything at a batch and length: facts of the record, a row for each K, what is served. */
function outcome(m, batch, length) {
  const place = nearest(m, length), f = factors(m, length), own = m.own_served && isNow(m, length);
  const now = batch === m.outcome.batch && isNow(m, length);
  const { best, runs } = configuration(m, batch, place, own);
  const k = now ? m.outcome.k : batch > m.largest ? best : running(runs, batch)[1];
  const rows = m.drafts.map((drafted, i) => {
    const speedup = at(m, m.speedup, batch, i) * f[i], tpot = at(m, m.tpot_ms, batch, i) / f[i];
    return {
      k: drafted,
      speedup,
      low: at(m, m.low, batch, i) * f[i],
      high: at(m, m.high, batch, i) * f[i],
      tpot,
      pBest: shareAt(m, m.best_share, length, batch, i, 100),
      chance: shareAt(m, m.chance, length, batch, i, 100),
      loss: shareAt(m, m.loss, length, batch, i, 1000),
      kept: m.limit_ms === null || tpot <= m.limit_ms,
    };
  });
  const chosen = m.drafts.indexOf(k);
  let tried = chosen;
  if (!chosen) for (let i = 1; i < rows.length; i++) if (!tried || rows[i].loss < rows[tried].loss) tried = i;
  const ranges = merged(now && !own ? m.outcome.served.map(([, last, drafted]) => [last, drafted]) : runs);
  if (now) tried = m.drafts.indexOf(m.outcome.tried);
  const zones = zonesOf(m, place, ranges, m.drafts[tried], own);
  const facts = now ? m.outcome : { ...m.outcome, ...factsAt(m, { batch, length, place, best, k, chosen, tried, rows, ranges, own, zones }) };
  return { rows, chosen, tried, k, facts, ranges, zones };
}

/** The facts that move with batch and length. */
function factsAt(m, { batch, length, place, best, k, chosen, tried, rows, ranges, own, zones }) {
  const own_k = rows[chosen], row = rows[tried], alone = rows[m.drafts.indexOf(best)], switches = ranges.length > 1;
  const [pays_to, loses_from, drafts_from, drafts_to, peak, peak_batch] = m.ends[place][switches ? 0 : 1 + chosen];
  const runs = m.published.filter((one) => one[3]), sides = m.sides[place], count = (side) => sides.filter((one) => one === side).length;
  const here = runs.filter((one) => one[0] === batch && (one[1] === row.k || one[1] === null)).map((one) => one[2]);
  const mine = m.own.filter((one) => one[0] === batch && one[1] === k).map((one) => one[2]).sort((a, b) => a - b);
  return {
    batch, k, best_alone: best, alone_gain: best === k ? null : alone.speedup / own_k.speedup - 1, k_from: own ? "own" : "model",
    tried: row.k, speedup: row.speedup, low: row.low, high: row.high, chance: row.chance, best_share: row.pBest, loss: row.loss,
    tpot_ms: own_k.tpot, plain_ms: rows[0].tpot, slow_ms: (row.tpot * row.speedup) / row.low, fastest_ms: Math.min(...rows.map((one) => one.tpot)),
    in_limit: own_k.kept, tried_in_limit: row.kept, any_in_limit: rows.some((one) => one.kept),
    needed_gib: m.needed_gib[0] + (m.needed_gib[1] - m.needed_gib[0]) * batch, wider_gpus: batch <= m.outcome.batch ? m.outcome.wider_gpus : null,
    accepted_length: m.accepted ? length : null, ...(isNow(m, length) ? {} : { admit: null, borrowed: null, runs_length: null, cancels_from: null }),
    pays_to, loses_from, drafts_from, drafts_to, peak, peak_batch, switches,
    zone: zones.length ? running(zones.map(([kind, last]) => [last, kind]), batch)[1] : null,
    experts_loaded: m.loaded && at(m, column(m.loaded), batch, 0), experts_time: m.loaded && at(m, column(m.loading_time), batch, 0),
    experts_more: at(m, m.growth, batch, tried) - 1,
    single_k_cost: m.cost[place] && m.cost[place][chosen], varies: Boolean(m.cost[place]),
    published_below: count(-1), published_above: count(1),
    here_n: here.length, here_low: here.length ? Math.min(...here) : null, here_high: here.length ? Math.max(...here) : null,
    own_here: mine.length ? mine[mine.length >> 1] : null,
  };
}

/** What would change the K of the record: [what, value, K]. */
function flips({ outcome }, ranges) {
  const { batch, k, below_length, below_k, off_length, above_length, above_k } = outcome, next = ranges.find((one) => batch < one.first && one.k !== k);
  const lengths = [["<", below_length, below_k], ["<", off_length, 0], [">", above_length, above_k]].filter(([, value]) => value !== null);
  return [...lengths.map(([sign, value, to]) => [`Accepted length ${sign}`, value.toFixed(2), to]), ...(next ? [["Batch >", whole(next.first - 1), next.k]] : [])];
}

/** Zones [kind, last batch] of a configuration; none where the user's own speedups decide. */
const zonesOf = (m, place, ranges, tried, own) => (own || m.drafts.length < 2 ? [] : ranges.length > 1 ? m.zones[place] : m.k_zones[m.drafts.indexOf(ranges[0].k || tried)]);

/** K of ranges at a batch; beyond their end the last. */
const scheduled = (ranges, batch) => (ranges.find((one) => batch <= one.last) || ranges[ranges.length - 1]).k;
