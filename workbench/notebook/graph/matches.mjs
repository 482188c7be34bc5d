/** What the search field finds in a graph, and which of it is looked at. */

import { Search } from "./search.mjs";

export class Matches {
  constructor() {
    this.search = new Search();
    this.clear();
  }

  clear() {
    this.units = [];
    this.set = new Set();
    this.at = -1;
  }

  /**
   * Looks for a pattern.
   *
   * @param {string} query
   * @param {import("./scene.mjs").Scene} scene
   * @param {boolean} withConstants  constants count too
   * @returns {Promise<{ words: string, isProblem: boolean } | null>}  what to say; null if another search began meanwhile
   */
  async find(query, scene, withConstants) {
    scene.searched ??= scene.texts();
    const answer = await this.search.find(query, scene.searched);
    if (answer === null) return null;
    this.units = answer.found.filter((unit) => scene.placeOfUnit.has(unit) || withConstants);
    this.set = new Set(this.units);
    this.at = -1;
    return { words: query ? answer.problem || countOf(this.units) : "", isProblem: Boolean(answer.problem) };
  }

  /** Looks at the next one, or one before; null if nothing was found. */
  step(by) {
    const { length } = this.units;
    if (!length) return null;
    this.at = this.at < 0 ? (by > 0 ? 0 : length - 1) : (this.at + by + length) % length;
    return { unit: this.units[this.at], words: `${this.at + 1} of ${countOf(this.units)}` };
  }

  close() {
    this.search.close();
  }
}

const countOf = ({ length }) => `${length.toLocaleString("en-US")} ${length === 1 ? "match" : "matches"}`;
