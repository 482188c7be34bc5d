/** Looks things up in a drawing and in the snapshot's columns. Pure. */

/** Boxes and frames. */
export const everything = (drawing) => [...drawing.boxes, ...drawing.frames];

/** The box or frame of an item. */
export const boxOf = (drawing, item) => everything(drawing).find((box) => box.item.key === item.key);

/** The old box and the one that takes its place: what has its key, or its first part, or the block that took it in. */
export function anchorAt(drawing, item, from) {
  const to = boxOf(drawing, item) ?? everything(drawing).find((box) => box.item.start <= item.start && item.start < box.item.end);
  return to ? { from, to } : null;
}

/** Columns as a list of records. */
export function records(columns) {
  const names = Object.keys(columns);
  return names.length ? columns[names[0]].map((_, index) => Object.fromEntries(names.map((name) => [name, columns[name][index]]))) : [];
}
