/**
 * What of a graph is shown: repeated blocks as one box until they are expanded. Pure: it knows nothing of a page.
 *
 * @typedef {{ start: number, size: number, copies: number, inner: Repeat[] }} Repeat
 * @typedef {{ units: number[], reads: number[][], repeats: Repeat[] }} Sequence
 *   `units` are the boxes that are no constants, in an order of computation; `reads` are places in it; `repeats` count in it
 * @typedef {object} Item
 * @property {"unit" | "repeat" | "copy" | "constant"} type
 * @property {string} key      stays the same while others are expanded
 * @property {number} start    first place in the sequence; a constant has none and stands before all
 * @property {number} end      place behind the last
 * @property {number} [copies] of a repeat
 * @property {number} [number] of a copy, from 1
 * @property {number} [of]     copies that a copy is one of
 * @property {string} [repeat] key of the repeat that a copy, or a box that is a whole copy, belongs to
 * @property {Repeat[]} [inner] what repeats in each copy
 * @property {Item[]} [items]  what is inside, if it is expanded
 */

/** Key of a repeat that begins at a place. */
export const repeatKey = (start, size) => `r${start}x${size}`;

/** Key of one copy of a block. */
export const copyKey = (start, size) => `c${start}x${size}`;

/**
 * The items of a stretch of the sequence; expanded ones hold their own.
 *
 * @param {number} start
 * @param {number} end
 * @param {Repeat[]} repeats  of the stretch, counted from `offset`
 * @param {Set<string>} expanded
 * @param {number} [offset]
 * @returns {Item[]}
 */
export function itemsOf(start, end, repeats, expanded, offset = 0) {
  const items = [];
  let place = start;
  for (const repeat of repeats) {
    const first = repeat.start + offset;
    while (place < first) items.push(unitItem(place++));
    const { size, copies, inner } = repeat;
    const key = repeatKey(first, size);
    place = first + size * copies;
    if (!expanded.has(key)) {
      items.push({ type: "repeat", key, start: first, end: place, copies, inner });
      continue;
    }
    for (let number = 1; number <= copies; number++) items.push(copyItem(first + (number - 1) * size, size, { number, of: copies, repeat: key, inner }, expanded));
  }
  while (place < end) items.push(unitItem(place++));
  return items;
}

const unitItem = (place) => ({ type: "unit", key: `u${place}`, start: place, end: place + 1 });

function copyItem(start, size, { number, of, repeat, inner }, expanded) {
  if (size === 1) return { ...unitItem(start), repeat };
  const key = copyKey(start, size);
  const items = expanded.has(key) ? itemsOf(start, start + size, inner, expanded, start) : undefined;
  return { type: "copy", key, start, end: start + size, number, of, repeat, inner, items };
}

/** Keys of all that has to be expanded, from the outside in, so that the box at a place is shown. */
export function pathTo(place, repeats, offset = 0) {
  for (const { start, size, copies, inner } of repeats) {
    const first = start + offset;
    if (place < first || place >= first + size * copies) continue;
    const keys = [repeatKey(first, size)];
    if (size === 1) return keys;
    const copy = first + Math.floor((place - first) / size) * size;
    return [...keys, copyKey(copy, size), ...pathTo(place, inner, copy)];
  }
  return [];
}

/** All keys of the repeats and copies of a sequence, or of what is inside of them. */
export function allKeys(repeats, offset = 0) {
  const keys = [];
  for (const { start, size, copies, inner } of repeats) {
    const first = start + offset;
    keys.push(repeatKey(first, size));
    for (let copy = 0; size > 1 && copy < copies; copy++) {
      keys.push(copyKey(first + copy * size, size));
      for (const key of allKeys(inner, first + copy * size)) keys.push(key);
    }
  }
  return keys;
}

/** Number of boxes that items are drawn as. */
export function countBoxes(items) {
  let count = 0;
  for (const item of items) count += item.items ? countBoxes(item.items) : 1;
  return count;
}

/** The innermost shown item that holds a place. */
export function itemAt(items, place) {
  const found = items.find((item) => item.type !== "constant" && item.start <= place && place < item.end);
  return found?.items ? itemAt(found.items, place) : found;
}

/**
 * The edges between the items of one level, and those that pass its border. Each has the place of the value that it carries, so that a value
 * enters a frame once, however many read it inside.
 *
 * @param {Item[]} items
 * @param {number[][]} reads
 * @param {number[][]} readers
 * @returns {{ edges: { value: number, from: Item | null, to: Item | null }[], incoming: number[], outgoing: number[] }}
 *   `from` or `to` is null where the edge passes the border
 */
export function edgesOf(items, reads, readers) {
  const start = items.length ? items[0].start : 0;
  const end = items.length ? items[items.length - 1].end : 0;
  const owner = new Array(end - start);
  for (const item of items) for (let place = item.start; place < item.end; place++) owner[place - start] = item;
  const edges = [];
  const incoming = new Set();
  const outgoing = new Set();
  for (const item of items) {
    const seen = new Set();
    for (let place = item.start; place < item.end; place++) {
      for (const value of reads[place]) {
        if ((value >= item.start && value < item.end) || seen.has(value)) continue;
        seen.add(value);
        const inside = value >= start;
        if (!inside) incoming.add(value);
        edges.push({ value, from: inside ? owner[value - start] : null, to: item });
      }
      if (readers[place].some((reader) => reader >= end)) {
        outgoing.add(place);
        edges.push({ value: place, from: item, to: null });
      }
    }
  }
  return { edges, incoming: [...incoming], outgoing: [...outgoing] };
}

/** For each place, the places that read it. */
export function readersOf(reads) {
  const readers = reads.map(() => []);
  reads.forEach((own, place) => own.forEach((read) => readers[read].push(place)));
  return readers;
}
