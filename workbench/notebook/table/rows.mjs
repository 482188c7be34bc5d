/**
 * The table's rows as plain objects, their totals, and which rows a tick concerns. Nothing here knows a page.
 *
 * @typedef {object} Task   one distinct kernel: what is tuned
 * @property {string} name
 * @property {number[]} rows     numbers of the rows that call it
 * @property {string} untunable  why it cannot be tuned; empty if it can
 * @property {object} state      how far its search is, see snapshot.py, task_state
 */

/** Rows and tasks of a snapshot: the columns turned round, and each task with its state. */
export function readSnapshot({ columns, tasks, states, header }) {
  const names = Object.keys(columns);
  const rows = columns.row.map((_, place) => Object.fromEntries(names.map((name) => [name, columns[name][place]])));
  for (const row of rows) row.tickable = row.task !== null && !row.untunable && !tasks[row.task].untunable;
  const made = tasks.map((task) => ({ ...task, state: null }));
  for (const state of states) made[state.place].state = state;
  return { rows, tasks: made, header };
}

/** Puts new states into the tasks and returns the numbers of the rows that show them. */
export function takeStates(tasks, states) {
  const changed = [];
  for (const state of states) {
    if (!tasks[state.place]) continue;
    tasks[state.place].state = state;
    changed.push(...tasks[state.place].rows);
  }
  return changed;
}

/** Sums over rows; what no row has is null. The rate is over the rows alone that have both operations and a time. */
export function totals(rows) {
  const sum = (values) => (values.length ? values.reduce((a, b) => a + b, 0) : null);
  const known = (name) => rows.map((row) => row[name]).filter((value) => value !== null);
  const rated = rows.filter((row) => row.flop !== null && row.time_us > 0);
  const us = sum(rated.map((row) => row.time_us));
  return {
    count: rows.length,
    tasks: new Set(rows.map((row) => row.task).filter((task) => task !== null)).size,
    time_us: sum(known("time_us")),
    time_percent: sum(known("time_percent")),
    flop: sum(known("flop")),
    gflops: us ? sum(rated.map((row) => row.flop)) / us / 1000 : null,
  };
}

/**
 * What is ticked after the user ticked or unticked some rows: a task is ticked as a whole.
 *
 * @param {Task[]} tasks
 * @param {Map<number, object>} byNumber  rows by number
 * @param {Set<number>} before            numbers of the rows that were ticked
 * @param {Set<number>} now               numbers of the rows whose boxes are ticked
 * @returns {{rows: number[], added: number[], removed: number[]}} sorted row numbers, and the places of the tasks that changed
 */
export function tickTasks(tasks, byNumber, before, now) {
  const taskOf = (number) => byNumber.get(number)?.task;
  const added = new Set([...now].filter((number) => !before.has(number)).map(taskOf));
  const removed = new Set([...before].filter((number) => !now.has(number)).map(taskOf));
  const rows = new Set(before);
  for (const place of removed) for (const number of tasks[place]?.rows ?? []) rows.delete(number);
  for (const place of added) for (const number of tasks[place]?.rows ?? []) rows.add(number);
  return { rows: [...rows].sort((a, b) => a - b), added: [...added], removed: [...removed] };
}

/** One sentence on a change of ticks, for the status line and for screen readers. */
export function describeTicks(tasks, { added, removed }) {
  const change = added.length ? added : removed;
  if (!change.length) return "";
  const verb = added.length ? "Ticked" : "Unticked";
  const rows = change.reduce((sum, place) => sum + tasks[place].rows.length, 0);
  if (change.length > 1) return `${verb} ${plural(change.length, "task")} with all ${plural(rows, "row")} that call them.`;
  const others = rows - 1;
  const also = others ? ` and ${others === 1 ? "the other row" : `the ${others} other rows`} of its task` : "";
  return `${verb} ${tasks[change[0]].name}${also}.`;
}

/** How much is ticked: "12 rows (5 tasks) ticked: 83.1 % of the time". */
export function describeSelection(rows, ticked, measured) {
  if (!ticked.size) return "Nothing ticked";
  const chosen = rows.filter((row) => ticked.has(row.row));
  const { tasks, time_percent: percent, flop } = totals(chosen);
  const all = totals(rows).flop;
  let share = "";
  if (measured && percent !== null) share = `: ${percent.toFixed(1)} % of the time`;
  else if (flop && all) share = `: ${((100 * flop) / all).toFixed(1)} % of the FLOP`;
  return `${plural(chosen.length, "row")} (${plural(tasks, "task")}) ticked${share}`;
}

export function plural(number, noun) {
  return `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
}

/** NaN and infinite values in a row's outputs, in words. */
export function flags(row) {
  const words = [];
  if (row.nan_count) words.push(`NaN ${row.nan_count.toLocaleString("en-US")}`);
  if (row.inf_count) words.push(`Inf ${row.inf_count.toLocaleString("en-US")}`);
  return words;
}
