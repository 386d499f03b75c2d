// The answer as one file (show/live_file.py): components in shadow roots, their payload in the page, no server to ask.

const FILE = JSON.parse(document.getElementById("payload").textContent);

/** The command where the sliders stand: of the range of batches, or the line that asks for another accepted length. */
function commandAt({ m, batch, length, now }) {
  const own = FILE.answer.command, { words, ...other } = FILE.other;
  if (batch === m.outcome.batch && isNow(m, length)) return own;
  if (batch > m.largest) return { ...own, text: "", title: say(m, "headline", now.facts), note: say(m, "launch", now.facts) };
  if (isNow(m, length)) return running(FILE.commands, batch)[1];
  return { ...own, ...other, text: words && `${words} --batch ${batch} --accepted-length ${+length.toFixed(2)}@${m.accepted.k}` };
}

function commanded() {
  const v = document.getElementById("answer").shadowRoot.live;
  v.m.command = commandAt(v);
  v.waiting = false;
  launch(v);
  v.launch.classList.remove("stale");
}

function put(name, data) {
  const parentElement = document.getElementById(name).attachShadow({ mode: "open" });
  parentElement.append(document.getElementById("styles").content.cloneNode(true));
  roots[name]({ parentElement, data, setTriggerValue: commanded });
}

window.addEventListener("moe-live", commanded);
put("answer", FILE.answer);
put("why", FILE.why);
