/** The app's head. Python owns what is shown (`view`, `choices`); what is typed and not yet sent lives here. */

import { definePart, download, element } from "../part.mjs";
import { makeOpener } from "./opener.mjs";
import { makeSelectionBar } from "./selection_bar.mjs";
import { LOOKS, PHASES, WORKER_LOOKS, duration, stepsNow } from "./words.mjs";

const TICK_MS = 500;
const RUNNING = ["preparing", "applying"];
const THEMES = { auto: "Theme: the page's", light: "Theme: light", dark: "Theme: dark" };
const SIGNS = { auto: "◐", light: "☀", dark: "☾" };

export default definePart("shell", (part) => {
  const header = makeHeader(part);
  const opener = makeOpener(part);
  const notices = makeNotices(part);
  const progress = makeProgress();
  const bar = makeSelectionBar(part);
  const next = element("div", { class: "wb-next", role: "status", "aria-live": "polite" });
  part.root.append(header.element, opener.element, notices.element, progress.element, bar.element, next);

  const show = () => {
    const view = part.model.get("view");
    if (!view?.phase) return;
    for (const piece of [header, opener, notices, progress, bar]) piece.show(view);
    next.textContent = view.doing && ["tuning", "ending"].includes(view.phase) ? `${view.next} Now: ${view.doing}.` : view.next;
    part.root.dataset.phase = view.phase;
  };
  part.watch("view", show);
  part.watch("choices", () => opener.choose(part.model.get("choices")));
  part.watch("theme", header.theme);
  part.on("download", ({ name, text, media_type: type }) => download(name, text, type));
  part.on("uploading", ({ received }) => opener.uploading(received));
  part.on("refused", () => opener.refused());
  part.on("uploaded", ({ path }) => opener.uploaded(path));
  opener.choose(part.model.get("choices"));
  header.theme();
  show();
  const timer = setInterval(progress.tick, TICK_MS);
  part.onEnd(() => clearInterval(timer));
});

function makeHeader(part) {
  const model = element("span", { class: "wb-title" });
  const facts = element("span", { class: "wb-muted wb-facts" });
  const phase = element("span", { class: "wb-chip" });
  const worker = element("span", { class: "wb-chip" });
  const theme = element("button", { class: "wb-button wb-sign", type: "button" });
  const help = element("button", { class: "wb-button wb-sign", type: "button", "aria-expanded": "false", "aria-label": "Help", title: "Help" }, "?");
  const text = makeHelp();
  theme.addEventListener("click", () => {
    const names = Object.keys(THEMES);
    part.set("theme", names[(names.indexOf(part.model.get("theme")) + 1) % names.length]);
    showTheme();
  });
  help.addEventListener("click", () => {
    text.hidden = !text.hidden;
    help.setAttribute("aria-expanded", String(!text.hidden));
  });
  function showTheme() {
    const name = part.model.get("theme");
    theme.textContent = SIGNS[name] ?? SIGNS.auto;
    theme.setAttribute("aria-label", THEMES[name] ?? THEMES.auto);
    theme.title = THEMES[name] ?? THEMES.auto;
  }
  return {
    element: element("header", {}, element("div", { class: "wb-bar wb-header" }, model, facts, phase, worker, theme, help), text),
    theme: showTheme,
    show(view) {
      model.textContent = view.model || "TVM workbench";
      facts.textContent = [view.target, view.engine].filter(Boolean).join(" · ");
      facts.title = view.place;
      phase.textContent = PHASES[view.phase] ?? view.phase;
      phase.className = `wb-chip wb-phase ${LOOKS[view.phase] ?? ""}`;
      worker.textContent = view.worker.words;
      worker.className = `wb-chip wb-worker ${WORKER_LOOKS[view.worker.state] ?? ""}`;
      worker.title = view.worker.pid === null ? "" : `process ${view.worker.pid}`;
    },
  };
}

function makeHelp() {
  const lines = [
    ["1  Profile", "Choose a model and a target. Every kernel call gets a row with its time, its origins in your model, and its tuning task."],
    ["2  Tick", "Tick what takes the time: a row stands for its task, so all calls of one kernel are ticked together."],
    ["3  Tune", "A search measures schedules for the ticked tasks in a process of its own. Close the page whenever you like; it goes on."],
    ["4  Apply", "The model is built with what was faster and right, and compared with the untuned one."],
    ["5  Inspect", "Click a trial in the chart to read its schedule, TIR and source, and to compare two of them."],
  ];
  const rows = lines.flatMap(([name, words]) => [element("dt", {}, name), element("dd", {}, words)]);
  return element("dl", { class: "wb-help", hidden: true }, ...rows);
}

/** What went wrong, and what is wrong now. */
function makeNotices(part) {
  const trouble = element("div", { class: "wb-error wb-trouble", role: "alert", hidden: true });
  const message = element("div", { class: "wb-problem-text" });
  const remedy = element("div", { class: "wb-remedy" });
  const detail = element("pre", { class: "wb-mono" });
  const more = element("details", {}, element("summary", {}, "Full text"), detail);
  const close = element("button", { class: "wb-button", type: "button", "aria-label": "Dismiss the problem" }, "×");
  close.addEventListener("click", () => part.send("dismiss"));
  const problem = element("div", { class: "wb-error wb-problem", role: "alert", hidden: true }, element("div", { class: "wb-grow" }, message, remedy, more), close);
  return {
    element: element("div", {}, trouble, problem),
    show(view) {
      trouble.hidden = !view.trouble;
      trouble.textContent = view.trouble ? `${view.trouble.message} ${view.trouble.remedy}` : "";
      problem.hidden = !view.problem;
      if (!view.problem) return;
      message.textContent = view.problem.message;
      remedy.textContent = view.problem.remedy;
      detail.textContent = view.problem.detail;
      more.hidden = !view.problem.detail;
    },
  };
}

/** The phases of a long step with their times. */
function makeProgress() {
  const list = element("ol", { class: "wb-steps", hidden: true, "aria-label": "Progress" });
  let told = { steps: [], at: 0, running: false };
  function draw() {
    const passed = (performance.now() - told.at) / 1000;
    const items = stepsNow(told.steps, passed, told.running).map((step, place) => {
      const now = told.running && place === told.steps.length - 1;
      const share = now && step.share ? ` ${Math.round(100 * step.share)} %` : "";
      return element("li", { class: now ? "wb-now" : "" }, element("span", {}, `${now ? "▸" : "✓"} ${step.name}${share}`), element("span", { class: "wb-muted" }, duration(step.seconds)));
    });
    list.replaceChildren(...items);
    list.hidden = !told.steps.length && !told.running;
  }
  return {
    element: list,
    show(view) {
      const running = RUNNING.includes(view.phase);
      const steps = running && !view.steps.length ? [{ name: "starting the worker", seconds: 0, share: null, done: false }] : view.steps;
      const same = JSON.stringify(steps) === JSON.stringify(told.steps) && running === told.running;
      if (same) return;
      told = { steps, at: performance.now(), running };
      draw();
    },
    tick: () => told.running && draw(),
  };
}
