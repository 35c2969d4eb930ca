"use strict";
// Replaces the parts of a page as they change. Without it, the page shows one moment.
const connection = document.getElementById("connection");
const source = new EventSource(document.body.dataset.events);

// put replaces a part, and keeps the focus and the scrolled tables of those who read it.
function put(id, html) {
  const part = document.getElementById(id);
  if (!part) return;
  const focus = part.contains(document.activeElement) ? document.activeElement : null;
  const label = focus && focus.getAttribute("aria-label");
  const scrolled = [...part.querySelectorAll(".scroll")].map((e) => [e.scrollLeft, e.scrollTop]);
  part.innerHTML = html;
  part.querySelectorAll(".scroll").forEach((e, i) => {
    if (scrolled[i]) [e.scrollLeft, e.scrollTop] = scrolled[i];
  });
  if (!focus) return;
  const again = focus.id ? document.getElementById(focus.id)
    : [...part.querySelectorAll("[tabindex]")].find((e) => e.getAttribute("aria-label") === label);
  again?.focus({ preventScroll: true });
}

source.addEventListener("part", (event) => {
  const [id, ...lines] = event.data.split("\n");
  put(id, lines.join("\n"));
});
source.addEventListener("open", () => { connection.textContent = ""; });
source.addEventListener("error", () => {
  connection.textContent = "No connection: what you see may be old. Trying again.";
});
// The page of a run that has ended is another one: it has the report. A local run's server ends with the run.
source.addEventListener("over", async () => {
  source.close();
  try {
    if ((await fetch(location.href)).ok) location.reload();
  } catch {
    connection.textContent = "The run and its server have ended. The report is in the run's directory.";
  }
});
