// The page is complete without this.
"use strict";

// Hides and shows the series of a chart by its legend.
for (const item of document.querySelectorAll(".legend [data-series]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", "true");
  button.append(...item.childNodes);
  item.append(button);
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    for (const figure of item.closest("[data-charts]").querySelectorAll("figure")) {
      for (const series of figure.querySelectorAll(".k" + item.dataset.series)) {
        series.style.display = shown ? "" : "none";
      }
    }
  });
}

// Says the words of a point to those who point at it, touch it, or come to it by Tab and the arrows. Points that cover
// each other are said together.
const tip = document.createElement("p");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true"); // each point has its words as a name
document.body.append(tip);

let focused = null; // the point that the keyboard came to, whose words a pointer at rest does not hide

function show(points, byFocus) {
  if (points.length === 0 && focused) return;
  focused = byFocus ? points[0] : null;
  tip.hidden = points.length === 0;
  if (tip.hidden) return;
  tip.textContent = points.map((p) => p.getAttribute("aria-label")).join("\n");
  const at = points[0].getBoundingClientRect();
  const left = Math.min(at.left + at.width / 2 - tip.offsetWidth / 2, document.body.clientWidth - tip.offsetWidth);
  const above = at.top - tip.offsetHeight - 2;
  tip.style.left = `${scrollX + Math.max(left, 8)}px`;
  tip.style.top = `${scrollY + (above < 0 ? Math.min(at.bottom + 2, innerHeight - tip.offsetHeight) : above)}px`;
}

function hide() {
  focused = null;
  show([]);
}

for (const svg of document.querySelectorAll("figure svg")) {
  const all = [...svg.querySelectorAll(".p")];
  if (all.length > 0) svg.setAttribute("role", "group");
  for (const [i, point] of all.entries()) {
    const title = point.querySelector("title");
    point.setAttribute("aria-label", title.textContent);
    title.remove(); // which the browser would show too
    point.setAttribute("role", "img");
    point.setAttribute("tabindex", i === 0 ? "0" : "-1");
  }
  const point = (event) => {
    const near = [];
    for (const p of all) {
      const box = p.querySelector("circle.h")?.getBoundingClientRect();
      if (!box) continue;
      const far = Math.hypot(event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2);
      if (box.width > 0 && far <= Math.max(box.width / 2, 12)) near.push({ p, far });
    }
    near.sort((a, b) => a.far - b.far);
    const under = event.target.closest(".p");
    show(near.length > 0 ? near.filter((n) => n.far < near[0].far + 3).slice(0, 6).map((n) => n.p) : under ? [under] : []);
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show([]));
  svg.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && show([event.target], true));
  svg.addEventListener("focusout", (event) => event.target === focused && hide());
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const drawn = all.filter((p) => p.getClientRects().length > 0); // by the legend
    if (event.key === "Escape") hide();
    if (!by || drawn.length === 0) return;
    event.preventDefault();
    drawn.at((drawn.indexOf(document.activeElement) + by) % drawn.length).focus();
  });
}
document.addEventListener("pointerdown", (event) => event.target.closest("figure svg") || hide());
