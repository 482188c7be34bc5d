/**
 * What the details say of an item, as plain data. Pure.
 *
 * @typedef {{ text: string, unit?: number, node?: number, graph?: string, row?: number }} Link
 * @typedef {{ title: string, pairs: [string, string | Link[]][] }} Section
 */

import { count, microseconds } from "../part.mjs";
import { stateOf } from "./colors.mjs";
import { timeOf, timeText } from "./scene.mjs";

const MOST_LINKS = 12;

/**
 * @param {import("./scene.mjs").Scene} scene
 * @param {import("./blocks.mjs").Item} item
 * @param {number | null} node  an operator in it
 * @param {{ tasks: object[], progress: Map<string, object>, operators: import("./scene.mjs").Scene, kernels: import("./scene.mjs").Scene }} known
 * @returns {{ title: string, subtitle: string, chips: string[], sections: Section[] }}
 */
export function factsOf(scene, item, node, known) {
  const about = scene.aboutItem(item);
  if (item.type === "repeat" || item.type === "copy") return blockFacts(scene, item, about, known);
  const unit = about.units[0];
  const nodes = scene.units.nodes[unit];
  const chosen = node !== null && nodes.includes(node) ? node : nodes.length === 1 ? nodes[0] : null;
  const row = scene.units.row[unit] === null ? null : scene.rows[scene.units.row[unit]];
  const sections = [];
  if (chosen !== null) sections.push(...nodeSections(scene, chosen));
  if (nodes.length > 1) sections.push({ title: `Operators of this kernel call (${nodes.length})`, pairs: [["", nodes.map((own) => linkTo(scene, own))]] });
  if (chosen === null) sections.push(flowSection(scene, unit));
  if (row) sections.push(rowSection(row), taskSection(row, known), ...otherGraph(scene, row, known));
  const shown = chosen ?? nodes[0];
  const title = chosen === null ? row?.ops || scene.nodes.op[shown] : scene.nodes.op[shown] || scene.nodes.kind[shown];
  const subtitle = chosen === null ? (row?.node_name ?? "") : scene.nodes.name[shown];
  return { title, subtitle, chips: chipsOf(scene, chosen ?? nodes[0], row, known), sections: sections.filter(({ pairs }) => pairs.length) };
}

function chipsOf(scene, node, row, known) {
  const words = { eliminated: "nothing of it is left to run", builtin: "a VM builtin, no kernel", input: "input", output: "output" };
  const state = scene.nodes.state[node] || scene.nodes.kind[node];
  const chips = words[state] ? [words[state]] : [];
  if (row) chips.push(stateOf(row, known.progress.get(row.task_id)));
  return chips;
}

function nodeSections(scene, node) {
  const { nodes } = scene;
  const pairs = [];
  if (scene.kind === "operators" && nodes.kind[node] === "operator") pairs.push(["Operator", nodes.op[node]], ["Name", nodes.name[node]]);
  if (nodes.location[node]) pairs.push(["Place", nodes.location[node]]);
  const readers = scene.nodeReaders(node);
  const tensors = [
    ["Reads", nodes.reads[node].map((read) => linkTo(scene, read, nodes.outputs[read][0]))],
    ["Weights", nodes.weights[node].join("; ")],
    ["Gives", nodes.outputs[node].join("; ")],
    ["Read by", readers.map((reader) => linkTo(scene, reader))],
  ];
  const attributes = Object.entries(nodes.attributes[node]);
  return [
    { title: "", pairs },
    { title: "Tensors", pairs: tensors.filter(([, value]) => value.length).map(([name, value]) => [name, Array.isArray(value) ? fewer(value) : value]) },
    { title: "Attributes", pairs: attributes },
  ];
}

function flowSection(scene, unit) {
  const place = scene.placeOfUnit.get(unit);
  if (place === undefined) return { title: "Tensors", pairs: [] };
  const links = (places) => fewer([...new Set(places)].map((other) => linkToUnit(scene, scene.kept[other])));
  const last = scene.units.nodes[unit][scene.units.nodes[unit].length - 1];
  const pairs = [["Reads", links(scene.reads[place])], ["Gives", scene.nodes.outputs[last].join("; ")], ["Read by", links(scene.readers[place])]];
  return { title: "Tensors", pairs: pairs.filter(([, value]) => value.length) };
}

function rowSection(row) {
  const pairs = [["Row", String(row.row)], ["Kernel", row.kernel ?? "none"]];
  if (row.time_us === null) pairs.push(["Time", "not measured"]);
  else {
    pairs.push(["Time", timeText([row])]);
    if (row.time_us_iqr !== null) pairs.push(["Spread (IQR)", `${microseconds(row.time_us_iqr)} us`]);
    if (row.gflops > 0) pairs.push(["Speed", `${row.gflops.toFixed(row.gflops < 10 ? 2 : 1)} GFLOP/s`]);
  }
  return { title: "Kernel call", pairs };
}

function taskSection(row, known) {
  if (row.task === null) return { title: "Task", pairs: [] };
  const task = known.tasks[row.task];
  const progress = known.progress.get(row.task_id);
  const pairs = [["Task", row.task_id], ["Rows", count(task.weight)], ["State", row.untunable ? `not tunable: ${row.untunable}` : stateOf(row, progress)]];
  if (progress) {
    const failed = progress.failed ? `, ${count(progress.failed)} failed` : "";
    pairs.push(["Trials", `${count(progress.trials)}${failed}`]);
    if (progress.now_us !== null) pairs.push(["Best", gainText(progress)]);
    if (progress.why) pairs.push(["Why", progress.why]);
  }
  return { title: "Task", pairs };
}

/** The best time of a task beside its baseline. */
export function gainText({ before_us: before, now_us: now }) {
  if (now === null || now === undefined) return "";
  return before ? `${microseconds(now)} us (${(before / now).toFixed(2)}× of ${microseconds(before)} us)` : `${microseconds(now)} us`;
}

function otherGraph(scene, row, known) {
  if (scene.kind === "kernels") {
    const { nodes } = known.operators;
    const own = nodes.rows.flatMap((rows, node) => (rows.includes(row.row) ? [node] : []));
    return [{ title: "Origins", pairs: [["", fewer(own.map((node) => ({ ...linkTo(known.operators, node), graph: "operators" })))]] }];
  }
  return [{ title: "", pairs: [["", [{ text: "Show in the graph of kernels", row: row.row, graph: "kernels" }]]] }];
}

function blockFacts(scene, item, about, known) {
  const size = item.type === "repeat" ? (item.end - item.start) / item.copies : item.end - item.start;
  const times = new Map();
  for (const row of about.rows) {
    const task = row.task === null ? "no task" : known.tasks[row.task].task;
    times.set(task, [...(times.get(task) ?? []), row]);
  }
  const slowest = [...times].sort((a, b) => (timeOf(b[1]) ?? 0) - (timeOf(a[1]) ?? 0)).slice(0, 8);
  const operators = about.units.reduce((sum, unit) => sum + scene.units.nodes[unit].length, 0);
  const pairs = [
    ["Boxes", item.type === "repeat" ? `${item.copies} × ${size}` : `${size}, as in ${item.of - 1} other ${item.of === 2 ? "block" : "blocks"}`],
    [scene.kind === "kernels" ? "Kernel calls" : "Operators", count(operators)],
    ["Time", about.rows.length ? timeText(about.rows) : "none"],
  ];
  const [first, second] = about.lines;
  return {
    title: first.strong,
    subtitle: second.text,
    chips: [item.type === "repeat" ? "repeated block" : `block ${item.number}`],
    sections: [
      { title: "", pairs },
      { title: "Tasks by time", pairs: slowest.map(([task, rows]) => [`${rows.length} ×`, `${task}: ${timeText(rows)}`]) },
    ],
  };
}

function linkTo(scene, node, tensor = "") {
  const { nodes } = scene;
  const what = nodes.kind[node] === "operator" ? `${nodes.op[node]} ${nodes.name[node]}` : nodes.kind[node] === "kernel" ? `row ${nodes.rows[node][0]}: ${nodes.op[node]}` : `${nodes.kind[node]} ${nodes.name[node]}`;
  return { text: tensor ? `${what} · ${tensor}` : what, node, unit: scene.unitOfNode[node] };
}

function linkToUnit(scene, unit) {
  const nodes = scene.units.nodes[unit];
  const link = linkTo(scene, nodes[nodes.length - 1]);
  return nodes.length > 1 ? { text: `row ${scene.units.row[unit]}: ${nodes.map((node) => scene.nodes.op[node]).join(", ")}`, unit } : link;
}

function fewer(links) {
  return links.length > MOST_LINKS ? [...links.slice(0, MOST_LINKS), { text: `… ${links.length - MOST_LINKS} more` }] : links;
}
