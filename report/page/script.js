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

let shown = null; // the point whose words were there before a finger or a button went down
let focused = null; // the point that the keyboard came to, whose words a pointer at rest does not hide

const requests = (point) => point && document.getElementById(point.dataset.slow); // what the page shows of its stage

function show(points, byFocus) {
  if (points.length === 0 && focused) return;
  focused = byFocus ? points[0] : null;
  tip.hidden = points.length === 0;
  tip.point = points[0];
  if (tip.hidden) return;
  tip.textContent = points.map((p) => p.getAttribute("aria-label")).join("\n") +
    (requests(points[0]) ? "\nClick or press Enter: its slowest requests" : "");
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
  const lead = (to) => requests(to) && (location.hash = to.dataset.slow);
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", (event) => {
    shown = tip.point;
    point(event);
  });
  svg.addEventListener("click", () => tip.point === shown && lead(shown)); // the first tap only says the words
  svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show([]));
  svg.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && show([event.target], true));
  svg.addEventListener("focusout", (event) => event.target === focused && hide());
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const drawn = all.filter((p) => p.getClientRects().length > 0); // by the legend
    if (event.key === "Escape") hide();
    if (event.key === "Enter") lead(document.activeElement);
    if (!by || drawn.length === 0) return;
    event.preventDefault();
    drawn.at((drawn.indexOf(document.activeElement) + by) % drawn.length).focus();
  });
}
document.addEventListener("pointerdown", (event) => event.target.closest("figure svg") || hide());

// One crosshair over all charts over time: by a pointer, a finger, and the keys of a slider. It says what each line has
// there, and leads to the stage's requests.
const run = document.getElementById("timeline");
if (run) {
  const times = run.dataset.x.trim().split(" ").map(Number);
  const stages = run.dataset.stage.split(" ");
  const lines = [...run.querySelectorAll("data")].map((line) => [line.dataset.name, line.value.split(" ")]);
  const slider = Object.assign(document.createElement("input"), { type: "range", min: 0, max: times.length - 1, value: 0 });
  slider.setAttribute("aria-label", "Second of the run");
  const says = document.createElement("p");
  const bar = document.createElement("div");
  bar.className = "cross";
  bar.append(slider, says);
  run.querySelector("figure").before(bar);
  const frame = (svg) => svg.dataset.limit.split(" ").slice(-5, -1).map(Number); // bottom, top, left, right
  const charts = [...run.querySelectorAll("svg[data-limit]")];
  const moved = () => {
    const at = slider.value;
    const words = lines.filter(([, values]) => values.some((v) => v !== "" && v !== "-1"))
      .map(([name, values]) => `${name} ${values[at] === "-1" ? "n/a" : Number(values[at]).toLocaleString("en")}`);
    const text = `Second ${times[at]}, stage ${stages[at]}: ${words.join(" · ")}`;
    slider.setAttribute("aria-valuetext", text);
    says.textContent = text;
    const to = `slow-${stages[at]}`;
    if (document.getElementById(to)) says.append(" · ", Object.assign(document.createElement("a"), { href: `#${to}`, textContent: "slowest requests" }));
    for (const svg of charts) {
      const [bottom, top, left, right] = frame(svg);
      const x = left + (times[at] / run.dataset.end) * (right - left);
      const cross = svg.querySelector(".crosshair") ?? svg.appendChild(document.createElementNS(svg.namespaceURI, "path"));
      cross.setAttribute("class", "l note crosshair");
      cross.setAttribute("d", `M${x} ${bottom}V${top}`);
    }
  };
  slider.addEventListener("input", () => {
    moved();
    for (const svg of charts) { // of charts that are wider than the window, the same part
      const line = svg.querySelector(".crosshair").getBoundingClientRect().left;
      const box = svg.parentNode.getBoundingClientRect();
      svg.parentNode.scrollLeft += line - box.left - box.width / 2;
    }
  });
  const follow = (event) => {
    const svg = event.currentTarget;
    const [, , left, right] = frame(svg);
    const box = svg.getBoundingClientRect();
    const second = (((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width - left) / (right - left) * run.dataset.end;
    const far = times.map((time) => Math.abs(time - second));
    slider.value = far.indexOf(Math.min(...far));
    moved();
  };
  for (const svg of charts) for (const kind of ["pointermove", "pointerdown"]) svg.addEventListener(kind, follow);
}

// Asks for an SLO. The highest load within it is the last one below the first whose p95 is beyond a limit: the p95 of
// each stage that counts is at its point. A chart of the latency has the limit as a line.
const latencies = ["TTFT", "TPOT", "E2E"];

function drawLimit(svg, limits) {
  const [name, how, ...numbers] = svg.dataset.limit.split(" ");
  const [low, high, bottom, top, left, right] = numbers.map(Number);
  const ms = limits[latencies.indexOf(name)];
  svg.querySelector(".typed")?.remove();
  const planned = svg.querySelector(".limit");
  if (planned) planned.style.display = limits.some((limit) => limit > 0) ? "none" : "";
  const value = how === "inverse" ? 1000 / ms : ms;
  const share = numbers[6] === "true" ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  if (!(share >= 0 && share <= 1)) return; // none was typed, or the line is outside of the chart
  const y = bottom + share * (top - bottom);
  const typed = svg.appendChild(document.createElementNS(svg.namespaceURI, "g"));
  typed.setAttribute("class", "typed");
  const line = typed.appendChild(document.createElementNS(svg.namespaceURI, "path"));
  line.setAttribute("class", "l event");
  line.setAttribute("stroke-width", "1.5");
  line.setAttribute("d", `M${left} ${y}H${right}`);
  const words = typed.appendChild(document.createElementNS(svg.namespaceURI, "text"));
  for (const [key, of] of Object.entries({ class: "note", x: right, y: y - 4, "text-anchor": "end" })) words.setAttribute(key, of);
  words.textContent = `${name} ≤ ${ms} ms`;
}

// answer says how far a target's points are within limits. Those that are not are pale.
function answer(name, points, limits) {
  const beyond = points.map((p) => {
    const values = p.dataset.p95.split(" ");
    const bad = latencies.findIndex((_, i) => limits[i] > 0 && !(values[i] !== "" && Number(values[i]) <= limits[i]));
    p.style.opacity = bad < 0 ? "" : ".3";
    return bad < 0 ? "" : values[bad] === "" ? `${latencies[bad]} n/a` : `p95 ${latencies[bad]} ${Number(Number(values[bad]).toPrecision(4))} ms`;
  });
  const words = (p) => p.getAttribute("aria-label");
  const load = (p) => words(p).split(":")[0];
  const first = beyond.findIndex(Boolean);
  const end = first < 0 ? "no higher load was measured" : `${load(points[first])} is beyond (${beyond[first]})`;
  return first === 0 ? `${name}: ${end}: no lower load was measured.` : `${name}: ${words(points.at(first < 0 ? -1 : first - 1))}; ${end}.`;
}

for (const section of document.querySelectorAll("section[data-charts]")) {
  const points = [...section.querySelectorAll("[data-p95]")];
  const has = (i) => points.some((p) => p.dataset.p95.split(" ")[i] !== "");
  if (points.length === 0) continue;
  const form = document.createElement("form");
  form.className = "slo legend";
  form.append("Try an SLO, 95 % of requests within each limit:");
  const inputs = latencies.map((name, i) => {
    const input = document.createElement("input");
    Object.assign(input, { type: "number", min: "0", step: "any" });
    const label = document.createElement("label");
    label.append(`${name} `, input, " ms");
    if (has(i)) form.append(label);
    return input;
  });
  const says = form.appendChild(document.createElement("output"));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    const limits = inputs.map((input) => input.valueAsNumber);
    const series = Object.groupBy(points, (p) => p.parentNode.getAttribute("class"));
    const lines = Object.entries(series).map(([k, of]) =>
      answer(section.querySelector(`.legend [data-series="${k.slice(1)}"]`).textContent.trim(), of, limits));
    says.innerText = limits.some((limit) => limit > 0) ? lines.join("\n") : "";
    section.querySelectorAll("[data-limit]").forEach((svg) => drawLimit(svg, limits));
  });
  section.querySelector(".charts").before(form);
}
