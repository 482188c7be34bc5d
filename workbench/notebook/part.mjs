/**
 * What all parts of the notebook have in common: their frame, messages to and from Python, theme, errors, and the end of a view.
 * A part is a module whose default export is `definePart("name", render)`; see CONTRIBUTING.md, Widgets.
 *
 * @typedef {object} Part
 * @property {any} model          anywidget's model: traits of the Python object
 * @property {HTMLElement} root   the part's own element, class `wb-part wb-<name>`; everything is drawn inside of it
 * @property {AbortSignal} signal aborted when the view goes away; give it to addEventListener and `onEnd`
 * @property {(kind: string, handler: (content: any, buffers: DataView[]) => void) => void} on          a message of this kind from Python
 * @property {(kind: string, content?: object, buffers?: ArrayBuffer[]) => void} send                   a message to Python: `Part.receive`
 * @property {(name: string, handler: (value: any) => void) => void} watch                              a trait changed
 * @property {(name: string, value: any) => void} set                                                   change a trait
 * @property {(handler: () => void) => void} onEnd                                                      run when the view goes away
 * @property {(handler: (theme: "light" | "dark") => void) => void} onTheme                             run now and when the theme changes
 * @property {(error: unknown, remedy?: string) => void} fail                                           show an error on top of the part
 * @property {(message: string, remedy?: string) => void} mention                                        the same, unless another one is shown
 * @property {(message: string) => void} forgive                                                        show that error no longer, if it is shown
 */

const PATIENCE_MS = 8000;
const LATE = "The notebook's kernel has not answered this view yet.";
const LATE_REMEDY = "If the kernel is busy, this goes away by itself; if it is idle, run the cell again.";

/**
 * A widget for anywidget. `render` builds the view; after it the message `ready` goes to Python, which answers with `welcome` and a snapshot.
 *
 * @param {string} name
 * @param {(part: Part) => void | Promise<void>} render
 */
export function definePart(name, render) {
  return {
    async render({ model, el }) {
      const end = new AbortController();
      const part = makePart({ name, model, el, end });
      try {
        await render(part);
        const repetition = repeat(part.signal, (times) => {
          if (times > 0) part.mention(LATE, LATE_REMEDY);
          part.send("ready");
        });
        part.on("welcome", () => {
          repetition.end();
          part.forgive(LATE);
        });
      } catch (error) {
        part.fail(error);
      }
      return () => end.abort();
    },
  };
}

/**
 * Asks now, and again while no answer comes: a message can get lost on its way through a busy server, in both directions.
 *
 * @param {AbortSignal} signal  ends it too
 * @param {(times: number) => void} ask  told how often it was asked before
 */
export function repeat(signal, ask, patience = PATIENCE_MS) {
  let timer = null;
  let times = 0;
  const end = () => clearTimeout(timer);
  const again = (pause) => {
    if (signal.aborted) return;
    ask(times++);
    timer = setTimeout(() => again(2 * pause), pause);
  };
  signal.addEventListener("abort", end);
  again(patience);
  return { end };
}

/** @returns {Part} */
function makePart({ name, model, el, end }) {
  const { signal } = end;
  const banner = makeBanner();
  // Jupyter leaves keys alone below this mark: space ticks a row and does not scroll the notebook.
  const root = element("div", { class: `wb-part wb-${name}`, "data-lm-suppress-shortcuts": "true" }, banner.element);
  el.append(root);
  /** Handlers of a part fail into its banner, never into the page. */
  const guarded = (handler) => (...values) => {
    if (signal.aborted) return;
    try {
      const result = handler(...values);
      if (result instanceof Promise) result.catch(banner.show);
    } catch (error) {
      banner.show(error);
    }
  };
  const handlers = new Map([["error", ({ message, remedy }) => banner.show(message, remedy)]]);
  const listen = (event, handler) => {
    model.on(event, handler);
    signal.addEventListener("abort", () => model.off(event, handler));
  };
  listen("msg:custom", (message, buffers) => {
    const handler = handlers.get(message?.kind);
    if (handler) guarded(handler)(message, buffers ?? []);
  });
  const theme = followTheme({ model, root, signal, listen });
  signal.addEventListener("abort", () => root.remove());
  return {
    model,
    root,
    signal,
    on: (kind, handler) => handlers.set(kind, handler),
    send: (kind, content = {}, buffers = []) => model.send({ ...content, kind }, undefined, buffers),
    watch: (trait, handler) => listen(`change:${trait}`, guarded(() => handler(model.get(trait)))),
    set(trait, value) {
      model.set(trait, value);
      model.save_changes();
    },
    onEnd: (handler) => signal.addEventListener("abort", handler),
    onTheme: (handler) => theme(guarded(handler)),
    fail: banner.show,
    mention: banner.mention,
    forgive: banner.forgive,
  };
}

function makeBanner() {
  const text = element("div", { class: "wb-grow" });
  const close = element("button", { class: "wb-button", type: "button", "aria-label": "Dismiss the error" }, "×");
  const box = element("div", { class: "wb-error", role: "alert", hidden: true }, text, close);
  let shown = "";
  close.addEventListener("click", () => (box.hidden = true));
  const show = (error, remedy = "") => {
    shown = error instanceof Error ? error.message : String(error);
    text.replaceChildren([shown, remedy].filter(Boolean).join(" "));
    box.hidden = false;
  };
  return {
    element: box,
    show,
    mention: (message, remedy) => (box.hidden || shown === message) && show(message, remedy),
    forgive: (message) => (box.hidden ||= shown === message),
  };
}

/** Sets `data-wb-theme` on the root: the trait `theme`, or what the page shows where it says "auto". */
function followTheme({ model, root, signal, listen }) {
  const handlers = [];
  const apply = () => {
    const wanted = model.get("theme");
    const theme = wanted === "light" || wanted === "dark" ? wanted : pageTheme();
    if (root.dataset.wbTheme === theme) return;
    root.dataset.wbTheme = theme;
    for (const handler of handlers) handler(theme);
  };
  apply();
  listen("change:theme", apply);
  const observer = new MutationObserver(apply);
  const attributeFilter = ["class", "data-jp-theme-light", "data-vscode-theme-kind", "data-theme"];
  observer.observe(document.body, { attributes: true, attributeFilter });
  observer.observe(document.documentElement, { attributes: true, attributeFilter });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", apply, { signal });
  signal.addEventListener("abort", () => observer.disconnect());
  return (handler) => {
    handlers.push(handler);
    handler(root.dataset.wbTheme);
  };
}

/** What the page around shows: JupyterLab, Notebook and Voila say it on the body, VS Code by a class; else the system's wish. */
export function pageTheme(page = document) {
  const { body, documentElement } = page;
  const jupyter = body.dataset.jpThemeLight ?? documentElement.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false" ? "dark" : "light";
  const classes = `${body.className} ${documentElement.className}`;
  if (/\b(vscode-dark|theme-dark|dark)\b/.test(classes)) return "dark";
  if (/\b(vscode-light|theme-light|light)\b/.test(classes)) return "light";
  return page.defaultView.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/**
 * An element whose children are text or elements: text is never read as HTML, so any name can be shown.
 *
 * @param {string} tag
 * @param {Record<string, any>} [attributes]  null, undefined and false leave an attribute out, true sets it empty; `onclick` and the like listen
 * @param {...(Node | string | number | null | undefined)} children
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.replace(/^on/, ""), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (typeof child === "number" ? String(child) : child)));
  return made;
}

/** A function that runs once, `delay` ms after the first of many calls, with the values of the last. */
export function coalesce(handler, delay) {
  let timer = null;
  let latest = [];
  return (...values) => {
    latest = values;
    timer ??= setTimeout(() => {
      timer = null;
      handler(...latest);
    }, delay);
  };
}

/** Offers a file that the page has made itself. */
export function download(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const COUNT = new Intl.NumberFormat("en-US");

/** Microseconds with four digits that count: 1,204 · 12.35 · 0.4312 · 0; an en dash where there is none. */
export function microseconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const digits = value >= 1000 || value === 0 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : value >= 1 ? 3 : 4;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A whole number with separators; an en dash where there is none. */
export function count(value) {
  return value === null || value === undefined ? "–" : COUNT.format(value);
}
