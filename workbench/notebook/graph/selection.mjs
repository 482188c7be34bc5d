/**
 * What is selected: a box with its operator, or a block. Pure.
 *
 * @typedef {{ graph: "operators" | "kernels", unit: number, node: number | null } | { graph: "operators" | "kernels", key: string }} Selection
 */

/**
 * The selection of an item; of a box with one operator, that operator.
 *
 * @param {import("./scene.mjs").Scene} scene
 * @param {"operators" | "kernels"} graph  which graph the scene is of
 * @param {import("./blocks.mjs").Item} item
 * @param {number | null} [node]  the operator of the box that is meant
 * @returns {Selection}
 */
export function selectionOf(scene, graph, item, node = null) {
  if (item.type === "repeat" || item.type === "copy") return { graph, key: item.key };
  const [unit] = scene.unitsOf(item);
  return { graph, unit, node: graph === "operators" ? (node ?? onlyNode(scene, unit)) : null };
}

/** The operator of a box that has one; null if it has several. */
export function onlyNode(scene, unit) {
  const nodes = scene.units.nodes[unit];
  return nodes.length === 1 ? nodes[0] : null;
}

/** The row of a selection; null if it has none. */
export function rowOf(scene, selection) {
  const unit = selection?.unit;
  return unit === undefined ? null : scene.units.row[unit];
}

/** A selection of the other graph in this one: by its row. */
export function carried(selection, scenes, graph) {
  const row = rowOf(scenes[selection.graph], selection);
  const unit = row === null ? undefined : scenes[graph].unitOfRow.get(row);
  return unit === undefined ? null : { graph, unit, node: null };
}

/** What the details are of: the selected box, also if a block hides it; else what is shown for it. */
export function subjectOf(scene, { unit, node }, shownItem) {
  const place = unit === undefined ? undefined : scene.placeOfUnit.get(unit);
  if (place === undefined) return { item: shownItem, node: node ?? null };
  return { item: { type: "unit", key: `u${place}`, start: place, end: place + 1 }, node };
}
