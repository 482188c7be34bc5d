/** What is ticked, what it promises, its budgets, and the buttons of the search. */

import { element } from "../part.mjs";
import { budget, forecast, leading, percent, refusal, ticked, times } from "./words.mjs";

const USUAL_FACTOR = 2;
const TITLES = {
  tune: "Search faster schedules for what is ticked",
  resume: "Go on with the search",
  pause: "Measure nothing more until Resume",
  stop: "End the search: the best are measured again, and the winners are named",
  apply: "Build the model with the winners, check it, and compare",
};
const WRONG = '[aria-invalid="true"]';
const EXPORTS = {
  selection: "Selection (JSON)",
  profile: "Profile (JSON)",
  trials: "Trials (CSV)",
  comparison: "Comparison (JSON)",
};

/** @param {import("../part.mjs").Part} part */
export function makeSelectionBar(part) {
  const summary = element("span", { class: "wb-title wb-selected" });
  const factor = element("select", { class: "wb-select wb-factor", "aria-label": "If each ticked kernel gets so many times faster" });
  const gain = element("span", { class: "wb-gain" });
  const promise = element("span", { class: "wb-promise" }, "if ", factor, "faster: model ", gain);
  const perTask = element("input", { class: "wb-input wb-few", type: "number", min: "1", step: "1", "aria-label": "Trials of each task", title: "Trials of each task, those of earlier searches included" });
  const seconds = element("input", { class: "wb-input wb-few", type: "number", min: "1", "aria-label": "Time limit in seconds", title: "Time limit of the search; empty for none", placeholder: "no" });
  const buttons = Object.fromEntries(["tune", "resume", "pause", "stop", "apply"].map((name) => [name, button(name)]));
  const importing = element("input", { class: "wb-hidden-text", type: "file", accept: ".json,application/json", tabindex: "-1", "aria-hidden": "true" });
  const importButton = element("button", { class: "wb-button wb-import", type: "button", title: "Take the ticks and budgets of a file" }, "Import");
  const exporting = element("select", { class: "wb-select wb-export", "aria-label": "Export" });
  const budgets = makeBudgets(part);
  const row = element("div", { class: "wb-bar wb-selection" },
    summary,
    promise,
    budgets.toggle,
    element("span", { class: "wb-spacer" }),
    element("label", { class: "wb-label" }, element("span", { class: "wb-muted" }, "trials a task"), perTask),
    element("label", { class: "wb-label" }, element("span", { class: "wb-muted" }, "limit"), seconds, element("span", { class: "wb-muted" }, "s")),
    ...Object.values(buttons),
    importButton, importing, exporting,
  );
  const refused = makeRefusals();
  const frame = element("div", { hidden: true }, row, refused.element, budgets.element);
  let view = null;
  let suggested = 0;

  buttons.tune.addEventListener("click", () => {
    const limits = refused.read({ per_task: perTask, seconds });
    const wrong = frame.querySelector(WRONG);
    if (wrong) wrong.focus();
    else part.send("tune", limits);
  });
  for (const name of ["resume", "pause", "stop", "apply"]) buttons[name].addEventListener("click", () => part.send(name));
  factor.addEventListener("change", showPromise);
  importButton.addEventListener("click", () => importing.click());
  importing.addEventListener("change", async () => {
    const [file] = importing.files;
    if (file) part.send("import", { text: await file.text() });
    importing.value = "";
  });
  exporting.addEventListener("change", () => {
    if (exporting.value) part.send("export", { what: exporting.value });
    exporting.value = "";
  });

  function button(name) {
    const words = name[0].toUpperCase() + name.slice(1);
    return element("button", { class: `wb-button wb-${name}`, type: "button", title: TITLES[name] }, words);
  }

  function showPromise() {
    const value = forecast(view.selection, Number(factor.value));
    promise.hidden = value === null;
    gain.textContent = value === null ? "" : times(value);
  }

  function showFactors(forecasts) {
    const wanted = forecasts.map(([value]) => String(value));
    if (wanted.join() === [...factor.options].map((option) => option.value).join()) return;
    const before = factor.value || String(USUAL_FACTOR);
    factor.replaceChildren(...wanted.map((value) => element("option", { value }, `${value}×`)));
    if (wanted.includes(before)) factor.value = before;
  }

  function showExports() {
    const possible = {
      selection: view.selection.count > 0,
      profile: view.profiled,
      trials: view.has_trials,
      comparison: view.has_comparison,
    };
    const names = Object.keys(EXPORTS).filter((name) => possible[name]);
    if (names.join() === exporting.dataset.names) return;
    exporting.dataset.names = names.join();
    exporting.replaceChildren(element("option", { value: "" }, "Export …"), ...names.map((name) => element("option", { value: name }, EXPORTS[name])));
  }

  return {
    element: frame,
    show(now) {
      view = now;
      frame.hidden = !view.profiled;
      if (!view.selection) return;
      summary.textContent = ticked(view.selection);
      summary.title = view.selection.rule;
      showFactors(view.selection.forecasts);
      showPromise();
      if (view.suggested !== suggested) {
        if (!perTask.value || Number(perTask.value) === suggested || Number(perTask.value) < view.suggested) perTask.value = String(view.suggested);
        suggested = view.suggested;
      }
      const lead = leading(view.phase, view.actions);
      for (const [name, made] of Object.entries(buttons)) {
        made.disabled = !view.actions.includes(name);
        made.classList.toggle("wb-primary", name === lead && !made.disabled);
      }
      buttons.resume.hidden = !view.actions.includes("resume");
      perTask.disabled = seconds.disabled = !view.actions.includes("open");
      importButton.disabled = !view.actions.includes("import");
      showExports();
      budgets.show(view);
    },
  };
}

/** Reads fields with budgets; one that holds none is marked, and said where the fields are. */
function makeRefusals() {
  const said = element("div", { class: "wb-refused", role: "alert", hidden: true });
  const say = (words) => {
    said.textContent = words.join(" ");
    said.hidden = !words.length;
  };
  return {
    element: said,
    clear: () => say([]),
    /** The budgets by name, `seconds` and whole numbers; null if one was refused. */
    read(fields) {
      const values = {};
      const words = [];
      for (const [name, field] of Object.entries(fields)) {
        const kind = { whole: name !== "seconds" };
        values[name] = field.validity.badInput ? NaN : budget(field.value, kind); // what is no number at all has an empty value
        const isWrong = Number.isNaN(values[name]);
        field.setAttribute("aria-invalid", String(isWrong));
        if (isWrong) words.push(refusal(field.getAttribute("aria-label"), kind));
      }
      say(words);
      return words.length ? null : values;
    },
  };
}

/** The ticked tasks with budgets of their own. */
function makeBudgets(part) {
  const toggle = element("button", { class: "wb-button wb-budgets-toggle", type: "button", "aria-expanded": "false" }, "Budgets");
  const body = element("tbody");
  const heads = ["Task", "Share", "Calls", "Trials so far", "Trials", "Seconds", ""].map((title) => element("th", { scope: "col" }, title));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
  const refused = makeRefusals();
  const box = element("div", { class: "wb-budgets", hidden: true }, refused.element, table);
  let view = null;
  toggle.addEventListener("click", () => {
    box.hidden = !box.hidden;
    if (box.hidden) forget();
    toggle.setAttribute("aria-expanded", String(!box.hidden));
    draw();
  });

  function forget() {
    body.replaceChildren();
    refused.clear();
  }

  function draw() {
    if (box.hidden || !view || box.contains(document.activeElement)) return;
    const may = view.actions.includes("tick");
    forget();
    body.append(...view.selection.tasks.map((item) => line(item, may)));
    if (!view.selection.tasks.length) body.append(element("tr", {}, element("td", { colspan: 7, class: "wb-muted" }, "Tick rows in the table.")));
  }

  function line(item, may) {
    const trials = element("input", { class: "wb-input wb-few", type: "number", min: 1, step: 1, value: item.trials, placeholder: "shared", disabled: !may, "aria-label": `Trials of ${item.name}` });
    const seconds = element("input", { class: "wb-input wb-few", type: "number", min: 1, value: item.seconds, placeholder: "no", disabled: !may, "aria-label": `Seconds for ${item.name}` });
    const send = () => {
      const limits = refused.read({ trials, seconds });
      if (limits) part.send("budget", { task: item.task, ...limits });
    };
    trials.addEventListener("change", send);
    seconds.addEventListener("change", send);
    const drop = element("button", { class: "wb-button", type: "button", disabled: !may, "aria-label": `Untick ${item.name}`, title: "Untick" }, "×");
    drop.addEventListener("click", () => {
      drop.blur();
      part.send("untick", { task: item.task });
    });
    const cells = [item.name, percent(item.share), item.weight, item.done, trials, seconds, drop];
    return element("tr", {}, ...cells.map((cell, place) => element("td", { class: place && place < 4 ? "wb-number" : "" }, cell)));
  }

  return {
    toggle,
    element: box,
    show(now) {
      view = now;
      toggle.disabled = !view.selection.count;
      draw();
    },
  };
}
