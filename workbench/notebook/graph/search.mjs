/**
 * Search by regular expression in the names of strangers. A pattern such as (a+)+$ can take years on a name that somebody chose for it, and
 * JavaScript cannot stop a match that runs: so matching happens in a worker that is ended when it takes too long.
 */

export const PATIENCE_MS = 800;
const LITERAL = /^[^\\^$.*+?()[\]{}|]*$/;

/** Indices of the texts in which a pattern is found, whatever the letters' case. */
export function matching(pattern, texts) {
  const expression = new RegExp(pattern, "im");
  const found = [];
  for (let index = 0; index < texts.length; index++) if (expression.test(texts[index])) found.push(index);
  return found;
}

/** What is wrong with a pattern; empty if it is one. */
export function faultOf(pattern) {
  try {
    new RegExp(pattern, "im");
    return "";
  } catch (error) {
    return String(error.message).replace(/^Invalid regular expression: /, "");
  }
}

const PROGRAM = `const matching = ${matching}; onmessage = ({ data }) => postMessage(matching(data.pattern, data.texts));`;

function makeWorker() {
  const address = URL.createObjectURL(new Blob([PROGRAM], { type: "text/javascript" }));
  const worker = new Worker(address);
  URL.revokeObjectURL(address);
  return worker;
}

/** Searches one list of texts at a time; a new search ends the one before. */
export class Search {
  /** @param {{ make?: () => Worker, patience?: number }} [options]  what to match in, and for how many milliseconds */
  constructor({ make = makeWorker, patience = PATIENCE_MS } = {}) {
    this.make = make;
    this.patience = patience;
    this.stop = () => {};
  }

  /**
   * @param {string} pattern
   * @param {string[]} texts
   * @returns {Promise<{ found: number[], problem: string } | null>}  null if another search began meanwhile
   */
  find(pattern, texts) {
    this.stop();
    if (!pattern) return Promise.resolve({ found: [], problem: "" });
    if (LITERAL.test(pattern)) {
      const wanted = pattern.toLowerCase();
      return Promise.resolve({ found: texts.flatMap((text, index) => (text.toLowerCase().includes(wanted) ? [index] : [])), problem: "" });
    }
    const problem = faultOf(pattern);
    if (problem) return Promise.resolve({ found: [], problem: `no regular expression: ${problem}` });
    return new Promise((resolve) => {
      let worker;
      try {
        worker = this.make();
      } catch (error) {
        resolve({ found: [], problem: `this page allows no background work, so only plain text can be searched (${error.message})` });
        return;
      }
      const finish = (answer) => {
        clearTimeout(timer);
        worker.terminate();
        this.stop = () => {};
        resolve(answer);
      };
      const timer = setTimeout(() => finish({ found: [], problem: "the pattern takes too long on these names" }), this.patience);
      worker.onmessage = ({ data }) => finish({ found: data, problem: "" });
      worker.onerror = (event) => {
        event.preventDefault?.();
        finish({ found: [], problem: `the search failed: ${event.message ?? "unknown"}` });
      };
      this.stop = () => finish(null);
      worker.postMessage({ pattern, texts });
    });
  }

  /** Ends what runs. */
  close() {
    this.stop();
  }
}
