"use strict";
// The fork viewer. Its data lie compressed in the page (pipeline/report/episodes.py says how); nothing is fetched.
// Text of agents and environments is only ever set as textContent: it can't become markup, whatever it holds.
// The address after # holds the filters (#forks?cohort=main&condition=stale-2&cell=harm), so that tables can link here.

const FILTERS = ["cohort", "condition", "delay", "operator", "cell", "population", "fired", "task", "pick"];
const MOST_LISTED = 1000;
const SAME = -1;

async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function unitsOf(data) {
  const text = (place) => data.texts[place];
  const step = ([kind, output, action, shown, real]) => ({
    kind: data.kinds[kind],
    output: text(output),
    action: action === SAME ? text(output) : text(action),
    shown: text(shown),
    real: real === SAME ? text(shown) : text(real),
  });
  const trunks = data.trunks.map(([cohort, task, condition, success, exit, alteredAt, steps, moments, fired, factual]) => ({
    cohort: text(cohort), task: text(task), condition: text(condition), success: success === 1, exit: text(exit),
    alteredAt, steps, moments, fired, factual: factual === 1,
  }));
  return data.units.map(([trunk, delay, operator, cell, carried, nothing, fired, at, exit, steps]) => ({
    ...trunks[trunk], trunkExit: trunks[trunk].exit, trunkSteps: () => trunks[trunk].steps.map(step),
    delay: String(delay), operator: text(operator), cell: data.cells[cell], carried: carried === 1, nothing: nothing === 1,
    fires: fired === 1, at, exit: text(exit), branchSteps: () => steps.map(step),
  }));
}

function passes(unit, filters) {
  return ["cohort", "condition", "delay", "operator", "cell"].every((name) => !filters[name] || unit[name] === filters[name])
    && (filters.population !== "factual-success" || unit.factual)
    && (!filters.fired || unit.fires)
    && (!filters.task || unit.task.toLowerCase().includes(filters.task.toLowerCase()));
}

const nameOf = (unit) => [unit.cohort, unit.task, unit.condition, unit.delay, unit.operator].join(" · ");

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A text of unknown origin: its own direction, never the page's.
const quoted = (tag, text, name) => element(tag, { dir: "auto", class: name }, text);

function observation(step, alteredHere) {
  if (step.shown === null) return [];
  const hidden = step.kind !== "reset" && step.real !== null && step.real !== step.shown;
  if (!alteredHere && !hidden) return [quoted("pre", step.shown, "seen")];
  const label = alteredHere ? "shown to the agent (altered)" : "shown to the agent";
  return [
    element("div", { class: "altered" },
      element("strong", {}, label), quoted("pre", step.shown, "seen"),
      element("strong", {}, step.real === step.shown ? "true: the same text" : "true"),
      ...(step.real === step.shown || step.real === null ? [] : [quoted("pre", step.real, "real")])),
  ];
}

const WORDS = { reset: "start", act: "action", think: "thought", unparseable: "unparseable", recover: "recovery", "give-up": "gives up" };

function stepBox(step, alteredHere) {
  const box = element("div", { class: `step ${step.kind}` }, element("span", { class: "kind" }, WORDS[step.kind]));
  if (step.output !== null) box.append(quoted("pre", step.output, "said"));
  if (step.action !== null && step.action !== step.output) box.append(quoted("pre", `→ ${step.action}`, "sent"));
  box.append(...observation(step, alteredHere));
  return box;
}

const sameStep = (one, other) => one && other && ["kind", "output", "action", "shown", "real"].every((name) => one[name] === other[name]);

const ending = (whose, success, exit) =>
  element("p", { class: `end ${success ? "good" : "bad"}` }, `${whose} ends: ${success ? "✓ success" : "✗ failure"} (${exit})`);

const mark = (name, text) => element("p", { class: `mark ${name}` }, text);

function both(box) { return element("div", { class: "row both" }, box); }

function rows(unit) {
  const trunk = unit.trunkSteps(), branch = unit.branchSteps();
  let action = 0;
  const altered = (step) => step.kind === "act" && ++action === unit.alteredAt && unit.condition !== "clean";
  const before = trunk.slice(0, unit.at).map((step) => both(stepBox(step, altered(step))));
  const prefix = element("details", { class: "prefix" },
    element("summary", {}, `Shared by both: ${before.length} steps before the fork`), ...before);
  prefix.open = true;
  if (unit.carried) {
    return [prefix, mark("fork", `The trunk had ended before delay ${unit.delay}: no recovery, its outcome stands.`),
      element("div", { class: "row" }, ending("Trunk", unit.success, unit.trunkExit), ending("Branch", unit.success, unit.exit))];
  }
  const made = [prefix, mark("fork", `Fork: ${unit.delay === "0" ? "right" : `${unit.delay} action${unit.delay === "1" ? "" : "s"}`} after the reply to action ${unit.alteredAt}`)];
  made.push(element("div", { class: "row heads" }, element("p", {}, "Trunk: no recovery"), element("p", {}, `Branch: ${unit.operator}`)));
  const after = trunk.slice(unit.at);
  let at = 0;
  while (at < branch.length && branch[at].kind === "recover") {
    made.push(element("div", { class: "row" }, element("div", { class: "none" }), stepBox(branch[at], false)));
    at += 1;
  }
  const rest = branch.slice(at);
  const ends = [ending("Trunk", unit.success, unit.trunkExit), ending("Branch", unit.cell === "rescue" || unit.cell === "kept-success", unit.exit)];
  let place = 0;
  for (; place < after.length && sameStep(after[place], rest[place]); place += 1) {
    made.push(both(stepBox(after[place], altered(after[place]))));
  }
  const parts = place < Math.max(after.length, rest.length);
  made.push(mark("part", parts ? "≠ Here they part" : "They never part: every step after the fork is the same."));
  // Each column's end stands right under its last step, however long the other goes on.
  for (; place <= Math.max(after.length, rest.length); place += 1) {
    const column = (steps, side) => (place < steps.length ? stepBox(steps[place], side === 0 && altered(steps[place]))
      : place === steps.length ? ends[side] : element("div", { class: "none" }));
    made.push(element("div", { class: "row" }, column(after, 0), column(rest, 1)));
  }
  return made;
}

function moments(unit) {
  if (!unit.moments.length) return [];
  const heading = element("tr", {}, ...["delay", "p_err", "p_0", "p_1", "u", "router"].map((name) => element("th", { scope: "col" }, name)));
  const lines = unit.moments.map(([delay, ...values]) => element("tr", {},
    element("th", { scope: "row" }, String(delay)), ...values.map((value) => element("td", {}, value.toFixed(3))),
    element("td", {}, unit.fired === null ? "leaves alone" : delay === unit.fired ? "intervenes" : delay < unit.fired ? "waits" : "–")));
  return [element("details", {}, element("summary", {}, "What the router saw in this episode"),
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, heading), element("tbody", {}, ...lines))))];
}

function show(unit, where) {
  where.replaceChildren();
  if (!unit) return;
  const notes = [];
  if (unit.nothing) notes.push("The altered text equals the true one.");
  if (unit.fires) notes.push("The router fires here.");
  where.append(
    element("h3", { tabindex: "-1" }, quoted("span", unit.task, "task")),
    element("p", { class: "unit" }, element("span", { class: `cell ${unit.cell}` }, unit.cell.replace("-", " ")),
      ` ${unit.cohort}, shown ${unit.condition}, delay ${unit.delay}, ${unit.operator}. ${notes.join(" ")}`),
    ...moments(unit), ...rows(unit));
}

function optionsOf(select, values, label) {
  select.replaceChildren(element("option", { value: "" }, label), ...values.map((value) => element("option", { value }, value)));
}

async function start(root) {
  const units = unitsOf(await unpacked(document.getElementById("episodes").textContent));
  const fields = Object.fromEntries(FILTERS.map((name) => [name, root.querySelector(`[name=${name}]`)]));
  const [found, detail] = [root.querySelector(".matches"), root.querySelector(".episode")];
  const distinct = (name) => [...new Set(units.map((unit) => unit[name]))];
  optionsOf(fields.cohort, distinct("cohort"), "all cohorts");
  optionsOf(fields.condition, distinct("condition").sort((a, b) => (a !== "clean") - (b !== "clean") || a.localeCompare(b)), "all");
  optionsOf(fields.delay, distinct("delay").sort((a, b) => a - b), "all");
  optionsOf(fields.operator, distinct("operator"), "all");
  const filters = {};
  let matching = [];

  const address = () => {
    const set = Object.entries(filters).filter(([, value]) => value);
    history.replaceState(null, "", `#forks?${new URLSearchParams(set)}`);
  };
  const pick = (place, silent) => {
    fields.pick.selectedIndex = place;
    filters.pick = matching[place] ? nameOf(matching[place]) : "";
    show(matching[place], detail);
    if (!silent) address();
  };
  const refresh = (silent) => {
    matching = units.filter((unit) => passes(unit, filters));
    const listed = matching.slice(0, MOST_LISTED);
    fields.pick.replaceChildren(...listed.map((unit) => element("option", { value: nameOf(unit) },
      `${unit.cell.replace("-", " ")} · ${unit.task} · ${unit.condition}, delay ${unit.delay}, ${unit.operator}${unit.fires ? " · router fires" : ""}`)));
    found.textContent = matching.length > MOST_LISTED
      ? `${matching.length.toLocaleString("en")} branches match; the first ${MOST_LISTED.toLocaleString("en")} are listed`
      : `${matching.length.toLocaleString("en")} ${matching.length === 1 ? "branch matches" : "branches match"}`;
    matching = listed;
    pick(Math.max(0, listed.findIndex((unit) => nameOf(unit) === filters.pick)), silent);
  };
  const read = () => {
    if (!location.hash.startsWith("#forks?")) return false;
    const asked = new URLSearchParams(location.hash.slice("#forks?".length));
    for (const name of FILTERS) {
      filters[name] = asked.get(name) || "";
      if (name === "fired") fields[name].checked = Boolean(filters[name]);
      else if (name !== "pick") fields[name].value = filters[name];
    }
    return true;
  };
  const arrive = (silent) => {
    if (!read()) return;
    refresh(silent);
    root.scrollIntoView();
    fields.pick.focus({ preventScroll: true });
  };

  for (const name of FILTERS.filter((one) => one !== "pick")) {
    fields[name].addEventListener("input", () => {
      filters[name] = name === "fired" ? (fields[name].checked ? "1" : "") : fields[name].value;
      refresh(false);
    });
  }
  fields.pick.addEventListener("change", () => pick(fields.pick.selectedIndex, false));
  const move = (by) => {
    const place = fields.pick.selectedIndex + by;
    if (place >= 0 && place < matching.length) pick(place, false);
  };
  root.querySelector(".previous").addEventListener("click", () => move(-1));
  root.querySelector(".next").addEventListener("click", () => move(1));
  for (const button of root.querySelectorAll("[data-preset]")) {
    button.addEventListener("click", () => { location.hash = `#forks?${button.dataset.preset}`; });
  }
  window.addEventListener("hashchange", () => arrive(true));
  root.hidden = false;
  if (location.hash.startsWith("#forks?")) arrive(true);
  else refresh(true);
  root.dataset.ready = "yes";
}

const viewer = document.getElementById("viewer");
if (viewer) {
  start(viewer).catch((error) => {
    viewer.hidden = false;
    viewer.replaceChildren(element("p", { class: "said" }, `The viewer can't be shown in this browser (${error.message}); \`cir show\` prints an episode.`));
  });
}
