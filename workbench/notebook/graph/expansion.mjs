/** Which repeated blocks are expanded, in each of the two graphs. */

import { pathTo } from "./blocks.mjs";

export class Expansion {
  constructor() {
    this.keys = { operators: new Set(), kernels: new Set() };
  }

  of(graph) {
    return this.keys[graph];
  }

  set(graph, keys) {
    this.keys[graph] = keys;
  }

  /** The keys after a click on a block. */
  toggled(graph, item) {
    return item.items ? this.without(graph, item.key) : this.with(graph, [item.key]);
  }

  with(graph, added) {
    return new Set([...this.keys[graph], ...added]);
  }

  without(graph, key) {
    const keys = new Set(this.keys[graph]);
    keys.delete(key);
    return keys;
  }

  /** The innermost expanded block around an item; undefined if there is none. */
  around(graph, item, repeats) {
    return pathTo(item.start, repeats).filter((key) => this.keys[graph].has(key)).at(-1);
  }
}
