// The answer as one file (show/live_file.py): components in shadow roots, their payload in the page, no server to ask.

const packed = new Blob([bytes(document.getElementById("payload").textContent)]);

new Response(packed.stream().pipeThrough(new DecompressionStream("deflate"))).json().then((file) => {
  /** The command where the sliders stand: of the range of batches, or the line that asks for another accepted length. */
  const commandAt = ({ m, batch, length, now }) => {
    const own = file.answer.command, { words, ...other } = file.other;
    if (batch === m.outcome.batch && isNow(m, length)) return own;
    if (batch > m.largest) return { ...own, text: "", title: say(m, "headline", now.facts), note: say(m, "launch", now.facts) };
    if (isNow(m, length)) return running(file.commands, batch)[1];
    return { ...own, ...other, text: words && `${words} --batch ${batch} --accepted-length ${+length.toFixed(2)}@${m.accepted.k}` };
  };
  const commanded = () => {
    const v = document.getElementById("answer").shadowRoot.live;
    v.waiting = false;
    v.launch.replaceChildren(...command(commandAt(v)));
    v.launch.classList.remove("stale");
  };
  window.addEventListener("moe-live", commanded);
  for (const name of ["answer", "why"]) {
    const parentElement = document.getElementById(name).attachShadow({ mode: "open" });
    parentElement.append(document.getElementById("styles").content.cloneNode(true));
    roots[name]({ parentElement, data: file[name], setTriggerValue: commanded });
  }
});
