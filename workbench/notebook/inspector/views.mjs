/** What the inspector offers of a task: tabs, trials, and where names occur. Nothing here knows a page. */

/** Tabs in their order; `own` ones are made by the inspector and not by a view of the engine. */
const TABS = [
  { id: "schedule", title: "Schedule", views: ["schedule"] },
  { id: "decisions", title: "Decisions", views: ["decisions"] },
  { id: "tir", title: "TIR", views: ["tir", "tir_before", "compute_dag"] },
  { id: "lowered", title: "Lowered", views: ["lowered"] },
  { id: "source", title: "Source", views: ["source"] },
  { id: "assembly", title: "Assembly", views: ["asm", "ptx", "sass"] },
  { id: "resources", title: "Resources", views: ["resources"] },
  { id: "diff", title: "Diff", views: [], own: true },
  { id: "effects", title: "Effects", views: ["effects"] },
  { id: "rerun", title: "Re-run", views: [], own: true },
];

/** Views that say the same for each trial of a task. */
const OF_NO_TRIAL = new Set(["tir_before", "compute_dag", "effects"]);

/** Views whose texts can be compared line by line. */
const NOT_COMPARED = new Set(["effects", "compute_dag", "tir_before", "resources"]);

/**
 * The tabs of a task: those above, and one for each view that none of them holds.
 *
 * @param {{view: string, title: string, unavailable: string, remedy: string, description: string, language: string}[]} infos
 */
export function tabsOf(infos) {
  const known = new Map(infos.map((info) => [info.view, info]));
  const placed = new Set(TABS.flatMap((tab) => tab.views));
  const others = infos.filter((info) => !placed.has(info.view)).map((info) => ({ id: info.view, title: info.title, views: [info.view] }));
  return [...TABS, ...others].map((tab) => {
    const views = tab.views.map((view) => known.get(view) ?? notOffered(view));
    const available = views.filter((info) => !info.unavailable);
    const first = views[0];
    const why = tab.own || available.length ? "" : because(first);
    return { id: tab.id, title: tab.title, own: Boolean(tab.own), infos: views, first: (available[0] ?? first)?.view ?? tab.id, unavailable: why };
  });
}

function notOffered(view) {
  return { view, title: view, language: "text", description: "", unavailable: "this engine does not make it", remedy: "" };
}

/** The tab that shows a view. */
export function tabOf(tabs, view) {
  return tabs.find((tab) => tab.id === view && tab.own) ?? tabs.find((tab) => tab.infos.some((info) => info.view === view)) ?? tabs[0];
}

/** "Not here: why. What would help." */
export function because({ unavailable, remedy }) {
  if (!unavailable) return "";
  const end = /[.!?]$/.test(unavailable) ? "" : ".";
  return `Not here: ${unavailable}${end}${remedy ? ` ${remedy}` : ""}`;
}

export function comparable(infos) {
  return infos.filter((info) => !info.unavailable && !NOT_COMPARED.has(info.view));
}

/** The number of the trial that is shown: a number that was chosen, or the best, or the untuned kernel while there is none. */
export function trialNumber(task, chosen) {
  return chosen ?? task?.best ?? 0;
}

/** What a trial is called: "best: trial 12", "untuned: trial 0", "trial 7". */
export function trialName(task, number) {
  if (number === 0) return task?.best === 0 ? "untuned (the best): trial 0" : "untuned: trial 0";
  return number === task?.best ? `best: trial ${number}` : `trial ${number}`;
}

/** One key for each text: the same for all trials where a view is of none. */
export function textKey(task, trial, view) {
  return JSON.stringify([task, OF_NO_TRIAL.has(view) ? null : trial, view]);
}

export function isOfNoTrial(view) {
  return OF_NO_TRIAL.has(view);
}

const WORD = /[\p{L}\p{N}_$]/u;
const NAME = /^[\p{L}_$][\p{L}\p{N}_$]*$/u;

/** The name around a place in a text; "" where there is none, or only a number or a single letter. */
export function nameAt(text, place) {
  let first = place;
  let end = place;
  while (first > 0 && WORD.test(text[first - 1])) first -= 1;
  while (end < text.length && WORD.test(text[end])) end += 1;
  const name = text.slice(first, end);
  return name.length > 1 && NAME.test(name) && !PLAIN_WORDS.has(name) ? name : "";
}

/** Words of the languages themselves, which stand in every text and say nothing. */
const PLAIN_WORDS = new Set(
  ("False None True and as assert break class continue def elif else except finally for from global if import in is lambda not or pass raise return " +
    "self try while with yield auto bool char const double extern float int long short signed sizeof static struct switch typedef union unsigned void " +
    "define declare align double i1 i8 i16 i32 i64 ptr label load store float32 float64 float16 int32 int64 int8 uint8 handle").split(" "),
);

/** A pattern for a name as a whole word. */
export function wholeWord(name) {
  return new RegExp(`(?<![\\p{L}\\p{N}_$])${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\p{L}\\p{N}_$])`, "gu");
}

/** How often a name stands in a text. */
export function countName(text, name) {
  return text.match(wholeWord(name))?.length ?? 0;
}

/** The lines of a text that are about a name, by its links: those of `loop NAME` and `block NAME`. */
export function linkedLines(links, name) {
  const found = links.filter((link) => link.name === name || link.name.endsWith(` ${name}`));
  return found.map(({ first_line: first, last_line: last }) => ({ first, last }));
}

/** "loop ff_0, block conv2d": what the links say of one line, the smallest first. */
export function linksAt(links, line) {
  const around = links.filter((link) => link.first_line <= line && line <= link.last_line);
  around.sort((a, b) => a.last_line - a.first_line - (b.last_line - b.first_line));
  return around.map((link) => link.name);
}

const ENDINGS = { python: "py", cuda: "cu", c: "c", llvm: "ll", asm: "s", ptx: "ptx", sass: "sass" };

/** A name for a file with a text. */
export function fileName(task, trial, { view, language }) {
  const stem = task.normalize("NFKD").replace(/\p{M}+/gu, "").replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[.\-_]+/, "").slice(0, 60) || "kernel";
  return `${stem}${isOfNoTrial(view) ? "" : `-trial${trial}`}-${view}.${ENDINGS[language] ?? "txt"}`;
}
