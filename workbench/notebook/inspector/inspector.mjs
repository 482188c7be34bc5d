/** The inspector: task, trial, view. Python answers questions; texts that came once are kept while the view lives. */

import { definePart, download, element } from "../part.mjs";
import { tabList, taskChooser, trialChooser, viewSwitch } from "./controls.mjs";
import { showDiff, showText } from "./editor.mjs";
import { decisionsTable, differencesTable, effectsPane, rerunPane } from "./panes.mjs";
import {
  because,
  comparable,
  countName,
  fileName,
  isOfNoTrial,
  linkedLines,
  linksAt,
  tabOf,
  tabsOf,
  textKey,
  trialName,
  trialNumber,
} from "./views.mjs";

const SLOW_AFTER_MS = 1500;
const NARROW = 760;
let panels = 0;

export default definePart("inspector", (part) => {
  const tasks = new Map();
  const ask = asker(part);
  const texts = new Map();
  const catalogues = new Map();
  const name = { word: "", links: [] };
  const other = { trial: 0, view: "schedule" };
  const reruns = new Map();
  const records = new Map();
  let turn = 0;
  let read = 0; // the trial whose views are shown
  let pane = { end() {} };

  const panel = `wb-inspector-${(panels += 1)}`;
  const chooseTask = taskChooser((task) => set({ task, trial: null }));
  const chooseTrial = trialChooser("Trial", (trial) => set({ trial }));
  const tabs = tabList((view) => set({ view }), panel);
  const newer = element("button", { class: "wb-button wb-newer", type: "button", hidden: true });
  const body = element("div", { class: "wb-body", id: panel, role: "tabpanel", "aria-label": "View" });
  const names = element("div", { class: "wb-bar wb-bottom wb-names", hidden: true });
  const failed = element("div", { class: "wb-failed", hidden: true });
  part.root.append(
    element("div", { class: "wb-bar" }, element("span", { class: "wb-title" }, "Inspector"), chooseTask.element, chooseTrial.element, newer),
    tabs.element,
    failed,
    body,
    names,
  );

  part.on("tasks", ({ tasks: changed }) => {
    const before = current();
    for (const task of changed) tasks.set(task.task, task);
    if (turn === 0 || !before || !current()) return refresh();
    if (current().best !== before.best && part.model.get("trial") === null) offerNewBest();
    showChoices();
  });
  for (const trait of ["task", "trial", "view"]) part.watch(trait, () => refresh());
  part.watch("height", fit);
  const observer = new ResizeObserver(arrange);
  observer.observe(part.root);
  part.onEnd(() => {
    observer.disconnect();
    pane.end();
  });
  fit();

  function fit() {
    body.style.height = `${part.model.get("height")}px`;
  }

  /** Two sides need room: a difference that is shown is set anew when there is no more of it, or enough again. */
  function arrange() {
    const { clientWidth: width } = part.root;
    if (width === 0) return; // in a tab that is not shown
    const isNarrow = width < NARROW;
    if (isNarrow === part.root.classList.contains("wb-narrow")) return;
    part.root.classList.toggle("wb-narrow", isNarrow);
    if (turn && part.model.get("view") === "diff") redraw();
  }

  function current() {
    return tasks.get(part.model.get("task"));
  }

  function set(traits) {
    for (const [trait, value] of Object.entries(traits)) part.model.set(trait, value);
    part.model.save_changes();
    refresh();
  }

  function showChoices() {
    chooseTask.show(tasks, part.model.get("task"));
    chooseTrial.show(current(), shownTrial());
  }

  /** The trial that is read: while a better one is on offer, that of before. */
  function shownTrial() {
    return newer.hidden ? trialNumber(current(), part.model.get("trial")) : read;
  }

  /** A search found a better trial while an older one is being read: the reader decides. */
  function offerNewBest() {
    newer.textContent = `Trial ${current().best} is the best now: show it`;
    newer.hidden = false;
    newer.onclick = () => refresh();
  }

  /** Draw what the traits say; several changes of one moment are one drawing. */
  function refresh() {
    newer.hidden = true;
    read = trialNumber(current(), part.model.get("trial"));
    redraw();
  }

  function redraw() {
    const mine = (turn += 1);
    showChoices();
    queueMicrotask(() => mine === turn && !part.signal.aborted && draw(mine).catch((error) => mine === turn && showFailure(error)));
  }

  async function draw(mine) {
    const task = current();
    if (!task) {
      failed.hidden = true;
      tabs.element.replaceChildren();
      show(element("div", { class: "wb-empty" }, tasks.size ? "Choose a task to see its schedules and code." : "This profile has no tasks."));
      return;
    }
    const infos = await waitFor(catalogues, task.task, () => ask("views", { task: task.task }).then(({ views }) => views));
    if (mine !== turn) return;
    const all = tabsOf(infos);
    const view = part.model.get("view");
    const tab = tabOf(all, view);
    tabs.show(all, tab.id);
    const trial = read;
    showRecord(task, trial, mine).catch((error) => mine === turn && showFailure(error));
    if (tab.id === "diff") await drawDiff({ task, trial, infos, mine });
    else if (tab.id === "rerun") drawRerun({ task, trial });
    else await drawText({ task, trial, tab, info: tab.infos.find((one) => one.view === view) ?? tab.infos[0], mine });
  }

  /** Above the views of a trial that failed: its class and the full text. A trial that has a record keeps it. */
  async function showRecord(task, trial, mine) {
    const key = textKey(task.task, trial, "trial");
    const record = records.get(key) ?? (await ask("trial", { task: task.task, trial }));
    if (record.status) records.set(key, record);
    if (mine !== turn) return;
    const before = failed.dataset.key;
    failed.hidden = !record.error;
    failed.dataset.key = key;
    if (record.error && before !== key) failed.replaceChildren(failedTrial(trialName(task, trial), record));
  }

  async function drawText({ task, trial, tab, info, mine }) {
    const switcher = tab.infos.length > 1 ? viewSwitch(tab.infos, info.view, (view) => set({ view })) : null;
    if (info.unavailable) {
      showAbsent(switcher, because(info), () => catalogues.delete(task.task));
      return;
    }
    const question = { task: task.task, trial, view: info.view };
    const text = await waitFor(texts, textKey(task.task, trial, info.view), () => ask("text", question), switcher);
    if (mine !== turn) return;
    if (text.unavailable) {
      showAbsent(switcher, because(text), () => texts.delete(textKey(task.task, trial, info.view)));
      return;
    }
    const where = isOfNoTrial(info.view) ? task.name : `${task.name}, ${trialName(task, trial)}`;
    const bar = element("div", { class: "wb-bar wb-pane-bar" },
      switcher,
      element("span", { class: "wb-muted wb-grow wb-about" }, `${info.description || info.title} · ${where}`),
      element("button", { class: "wb-button", type: "button", onclick: () => copy(text.text) }, "Copy"),
      element("button", { class: "wb-button", type: "button", onclick: () => download(fileName(task.name, trial, info), text.text, "text/plain") }, "Save"),
    );
    const rich = richPane(info.view, text.data ?? {});
    if (rich) {
      show(bar, element("div", { class: "wb-scroll", tabindex: "0" }, rich));
      return;
    }
    const place = element("div", { class: "wb-editor" });
    show(bar, place);
    const editor = showText(place, text.text, {
      language: info.language,
      label: `${info.title} of ${where}`,
      onName: (word, line) => chooseName(word, linksAt(text.links ?? [], line)),
    });
    const mark = (scroll) => editor.mark(name.word, linkedLines(text.links ?? [], name.word), { scroll });
    pane = { end: editor.end, mark };
    if (name.word) mark(true);
    showNames();
  }

  async function drawDiff({ task, trial, infos, mine }) {
    const views = comparable(infos);
    const info = views.find((one) => one.view === other.view) ?? views[0];
    const against = trialChooser("Compare with", (chosen) => {
      other.trial = trialNumber(current(), chosen);
      refresh();
    });
    against.show(task, other.trial);
    const choice = element("select", { class: "wb-select", "aria-label": "What to compare", onchange: () => ((other.view = choice.value), refresh()) },
      ...views.map((one) => element("option", { value: one.view, selected: one === info }, one.title)));
    const bar = element("div", { class: "wb-bar wb-pane-bar" }, "Compare", choice, "with", against.element);
    if (!info) return void show(bar, element("div", { class: "wb-empty" }, "Not here: no view of this task can be compared."));
    if (other.trial === trial) {
      show(bar, element("div", { class: "wb-empty" }, `This is ${trialName(task, trial)} on both sides. Choose another trial above or here.`));
      return;
    }
    const key = JSON.stringify(["diff", task.task, other.trial, trial, info.view]);
    const question = { task: task.task, left: other.trial, right: trial, view: info.view };
    const diff = await waitFor(texts, key, () => ask("diff", question).then((answer) => answer.diff), bar);
    if (mine !== turn) return;
    const same = diff.left_text === diff.right_text;
    const place = element("div", { class: "wb-editor wb-merge" });
    show(bar,
      element("div", { class: "wb-sides" }, element("span", { class: "wb-side" }, diff.left), element("span", { class: "wb-side" }, diff.right)),
      element("details", { class: "wb-decided" },
        element("summary", {}, `${diff.decisions.length} ${diff.decisions.length === 1 ? "decision differs" : "decisions differ"}`),
        differencesTable(diff.decisions, diff.left, diff.right)),
      same ? element("div", { class: "wb-empty" }, `The ${info.title} is the same on both sides.`) : place,
    );
    if (same) return;
    const sides = [{ text: diff.left_text, label: `${info.title} of ${diff.left}` }, { text: diff.right_text, label: `${info.title} of ${diff.right}` }];
    pane = showDiff(place, ...sides, { language: info.language, narrow: part.root.classList.contains("wb-narrow") });
  }

  function drawRerun({ task, trial }) {
    const key = JSON.stringify([task.task, trial]);
    const again = reruns.get(key) ?? {};
    const button = element("button", { class: "wb-button wb-primary", type: "button", disabled: again.running, onclick: () => rerun(task, trial, key) },
      again.running ? "Measuring …" : `Measure ${trial === 0 ? "the untuned kernel" : `trial ${trial}`} again`);
    const cancel = again.running ? element("button", { class: "wb-button", type: "button", onclick: () => ask.giveUp("rerun") }, "Cancel") : null;
    show(
      element("div", { class: "wb-bar wb-pane-bar" }, button, cancel,
        element("span", { class: "wb-muted wb-grow" }, "Lowers the recorded schedule, checks its output and measures it by turns with the untuned kernel.")),
      element("div", { class: "wb-scroll", tabindex: "0", "aria-live": "polite" },
        again.failure ? failure(again.failure) : again.answer ? rerunPane(again.answer) : element("div", { class: "wb-empty" },
          again.running ? "A running search is waited for first." : `How far is ${trialName(task, trial)} of ${task.name} from its record now?`)),
    );
  }

  async function rerun(task, trial, key) {
    reruns.set(key, { running: true });
    refresh();
    try {
      reruns.set(key, { answer: (await ask("rerun", { task: task.task, trial })).rerun });
    } catch (error) {
      if (error.superseded) reruns.delete(key);
      else reruns.set(key, { failure: error });
    }
    if (part.model.get("view") === "rerun") refresh();
  }

  /** A value that is kept; while it is on its way, the pane says so. */
  async function waitFor(kept, key, question, above = null) {
    if (kept.has(key)) return kept.get(key);
    const words = element("span", {}, "Asking the worker …");
    show(above, element("div", { class: "wb-empty", role: "status" }, words));
    const slow = setTimeout(() => (words.textContent = "The worker is busy. This comes as soon as it is free."), SLOW_AFTER_MS);
    try {
      const value = await question();
      kept.set(key, value);
      return value;
    } finally {
      clearTimeout(slow);
    }
  }

  function show(...children) {
    pane.end();
    pane = { end() {} };
    names.hidden = true;
    body.replaceChildren(...children.filter(Boolean));
  }

  function showAbsent(above, why, forget) {
    const again = element("button", { class: "wb-button", type: "button", onclick: () => (forget(), refresh()) }, "Look again");
    show(above ? element("div", { class: "wb-bar wb-pane-bar" }, above) : null, element("div", { class: "wb-empty wb-absent" }, element("p", {}, why), again));
  }

  function showFailure(error) {
    if (error.superseded) return;
    const again = element("button", { class: "wb-button", type: "button", onclick: () => refresh() }, "Try again");
    show(element("div", { class: "wb-scroll" }, failure(error), again));
  }

  /** Mark a name here and in the views that were opened; "" takes the mark away. */
  function chooseName(word, links) {
    name.word = word === name.word && links.length === 0 ? "" : word;
    name.links = links;
    pane.mark?.(false);
    showNames();
  }

  function showNames() {
    names.hidden = !name.word && !name.links.length;
    if (names.hidden) return;
    const task = current();
    const trial = shownTrial();
    const places = [];
    for (const info of catalogues.get(task.task) ?? []) {
      const text = texts.get(textKey(task.task, trial, info.view));
      const found = name.word && text?.text ? countName(text.text, name.word) : 0;
      if (found) places.push(element("button", { class: "wb-button", type: "button", onclick: () => set({ view: info.view }) }, `${info.title} ${found}`));
    }
    names.replaceChildren(
      ...(name.word ? [element("span", { class: "wb-mono wb-name" }, name.word), ...places] : []),
      ...(name.links.length ? [element("span", { class: "wb-muted" }, "This line is in"), ...name.links.map(linkButton)] : []),
      element("span", { class: "wb-grow" }),
      element("button", { class: "wb-button", type: "button", "aria-label": "Take the mark away", onclick: () => chooseName("", []) }, "×"),
    );
  }

  function linkButton(link) {
    const word = link.split(" ").at(-1);
    return element("button", { class: "wb-button wb-mono", type: "button", title: "Mark it in all views", onclick: () => chooseName(word, name.links) }, link);
  }

  async function copy(text) {
    if (!navigator.clipboard || !window.isSecureContext) throw new Error("The browser lets only secure pages copy. Use Save instead.");
    await navigator.clipboard.writeText(text);
  }
});

function richPane(view, data) {
  if (view === "decisions" && data.knobs?.length) return decisionsTable(data.knobs);
  if (view === "effects" && data.effects) return effectsPane(data);
  return null;
}

function failure(error) {
  return element("div", { class: "wb-failure", role: "alert" }, element("pre", { class: "wb-trace" }, error.message), error.remedy ? element("p", {}, error.remedy) : null);
}

/** What became of a trial that failed; long texts are folded. */
function failedTrial(name, { status, error }) {
  const lines = error.trim().split("\n");
  const chip = element("span", { class: "wb-chip wb-bad" }, status.replaceAll("_", " "));
  const summary = element("summary", {}, `${name}: `, chip, " ", element("span", { class: "wb-muted" }, lines.at(-1)));
  return element("details", {}, summary, element("pre", { class: "wb-trace", tabindex: "0" }, error));
}

/** Questions to Python, each answered or failed by its number; a newer question of the same kind takes the place of the one before. */
function asker(part) {
  const waiting = new Map();
  let last = 0;
  const settle = (id, how, value) => {
    waiting.get(id)?.[how](value);
    waiting.delete(id);
  };
  part.on("answer", ({ id, ...content }) => settle(id, "resolve", content));
  part.on("failed", ({ id, message, remedy }) => settle(id, "reject", Object.assign(new Error(message), { remedy })));
  part.onEnd(() => waiting.clear());
  const drop = (kind) => {
    for (const [id, question] of waiting) {
      if (question.kind === kind) settle(id, "reject", Object.assign(new Error("Nobody waits for it any more."), { superseded: true }));
    }
  };
  const ask = (kind, content) => {
    drop(kind);
    const id = (last += 1);
    return new Promise((resolve, reject) => {
      waiting.set(id, { kind, resolve, reject });
      part.send(kind, { ...content, id });
    });
  };
  const giveUp = (kind) => {
    drop(kind);
    part.send("give_up", { question: kind });
  };
  return Object.assign(ask, { giveUp });
}
