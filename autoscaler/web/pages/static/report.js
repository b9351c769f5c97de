// A report of rehearsals; it stands in one file with the scripts that it imports.

import { drawRehearsed } from "./rehearsed.js";
import { localize } from "./times.js";

localize(document);
const { rehearsals } = JSON.parse(document.getElementById("data").textContent);

// Hundreds of charts are drawn as they come into view.
const seen = new IntersectionObserver((entries) => {
  for (const one of entries) {
    if (!one.isIntersecting) continue;
    seen.unobserve(one.target);
    drawRehearsed(one.target, rehearsals);
  }
}, { rootMargin: "300px" });
for (const one of document.querySelectorAll(".rehearsed-chart")) seen.observe(one);
