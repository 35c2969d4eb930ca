// Hides and shows the series of a chart by its legend. The page is complete without it.
"use strict";
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
