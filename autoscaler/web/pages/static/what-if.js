// A target rehearsed with other settings: what was sent is answered in place.

import { drawRehearsed } from "./rehearsed.js";
import { localize } from "./times.js";

const form = document.getElementById("what-if-form");
const result = document.getElementById("what-if-result");
const text = document.getElementById("what-if-yaml");
const announcer = document.getElementById("announcer");
let chart = null;

const show = () => {
  chart?.destroy();
  chart = null;
  localize(result);
  const drawn = result.querySelector("[data-rehearsals]");
  if (drawn !== null) {
    const { rehearsals } = JSON.parse(drawn.dataset.rehearsals);
    chart = drawRehearsed(drawn.querySelector(".rehearsed-chart"), rehearsals);
  }
  const copies = result.querySelector("[data-copies]");
  if (copies !== null && navigator.clipboard !== undefined) copies.hidden = false;
};

const tell = (sentence) => {
  result.replaceChildren(Object.assign(document.createElement("p"), { textContent: sentence }));
};

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  announcer.textContent = "Rehearsing";
  // The shown time goes on while the text is written.
  const { query } = document.getElementById("what-if-time").dataset;
  try {
    const answer = await fetch(`${location.pathname}${query}&part=what-if`, {
      method: "POST",
      headers: { Accept: "text/html" },
      body: new URLSearchParams(new FormData(form)),
    });
    if (!answer.headers.get("Content-Type")?.startsWith("text/html")) {
      throw new Error(`the daemon answers ${answer.status}`);
    }
    result.innerHTML = await answer.text();
    show();
    announcer.textContent = result.querySelector(".notice")?.textContent ?? "Rehearsed";
  } catch (error) {
    tell(`It could not be rehearsed: ${error.message}`);
  }
  button.disabled = false;
});

result.addEventListener("click", (event) => {
  const link = event.target.closest("[data-line]");
  if (link !== null) {
    const lines = text.value.split("\n");
    const begin = lines.slice(0, Number(link.dataset.line) - 1).reduce((sum, line) => sum + line.length + 1, 0);
    text.focus();
    text.setSelectionRange(begin, begin + (lines[Number(link.dataset.line) - 1]?.length ?? 0));
    event.preventDefault();
  }
  const button = event.target.closest("[data-copies]");
  if (button !== null) {
    navigator.clipboard.writeText(result.querySelector(".patch").textContent)
      .then(() => { announcer.textContent = "Copied"; });
  }
});

show();
document.addEventListener("themechange", show);
