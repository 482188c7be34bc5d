/** Model, target, layout and engine: chosen from lists, typed, or dropped as a file. */

import { element } from "../part.mjs";
import { takeDrops } from "./drops.mjs";
import { RELAY, engineChoice, pieces } from "./words.mjs";

const PIECE_BYTES = 512 * 1024;
const OTHER = "other";
let made = 0;

/** @param {import("../part.mjs").Part} part */
export function makeOpener(part) {
  made += 1;
  const list = element("datalist", { id: `wb-models-${made}` });
  const model = element("input", { class: "wb-input wb-model", type: "text", list: list.id, "aria-label": "Model", placeholder: "a bundled name, a file, a session …", spellcheck: "false", autocomplete: "off" });
  const file = element("input", { class: "wb-hidden-text", type: "file", tabindex: "-1", "aria-hidden": "true" });
  const browse = element("button", { class: "wb-button", type: "button", title: "Or drop a file here" }, "File …");
  const target = element("select", { class: "wb-select wb-target", "aria-label": "Target" });
  const typed = element("input", { class: "wb-input wb-typed", type: "text", "aria-label": "Target as TVM writes it", placeholder: '{"kind": "llvm", "mcpu": …}', hidden: true });
  const layout = element("select", { class: "wb-select", "aria-label": "Layout" });
  const shapes = element("input", { class: "wb-input", type: "text", "aria-label": "Shapes of inputs with dynamic dimensions", placeholder: "input=1,3,224,224" });
  const args = element("input", { class: "wb-input", type: "text", "aria-label": "Arguments of a TE workload", placeholder: "[1, 64]" });
  const kernel = element("select", { class: "wb-select", "aria-label": "Kernel", title: "The environment whose TVM does the work" });
  const engine = element("select", { class: "wb-select wb-engine", "aria-label": "Engine", title: "The generation of TVM that does the work" });
  const pythons = element("datalist", { id: `wb-pythons-${made}` });
  const python = element("input", { class: "wb-input wb-python", type: "text", list: pythons.id, "aria-label": "Python with the old TVM", title: "The program whose TVM does the work, or a Jupyter kernel that starts it", placeholder: "a path or a Jupyter kernel", spellcheck: "false", autocomplete: "off" });
  const trust = element("input", { type: "checkbox" });
  const again = element("input", { type: "checkbox" });
  const profile = element("button", { class: "wb-button wb-primary wb-profile", type: "button" }, "Profile");
  const cancel = element("button", { class: "wb-button wb-cancel", type: "button", hidden: true }, "Cancel");
  const upload = element("span", { class: "wb-muted", role: "status" });
  const labelled = (words, ...controls) => element("label", { class: "wb-label" }, element("span", { class: "wb-muted" }, words), ...controls);
  const old = labelled("Python", python, pythons);
  const chip = element("span", { class: "wb-chip wb-active", hidden: true }, RELAY);
  const more = element("details", { class: "wb-more" },
    element("summary", {}, "More ", chip),
    element("div", { class: "wb-more-list" },
      labelled("Engine", engine),
      old,
      labelled("Layout", layout),
      labelled("Shapes", shapes),
      labelled("Arguments", args),
      labelled("Kernel", kernel),
      element("label", { class: "wb-label", title: "TVMScript, torch.export archives and module:function run code of their author" }, trust, "Trust the model's own code"),
      element("label", { class: "wb-label", title: "Even if the session has a profile" }, again, "Measure again"),
    ),
  );
  const row = element("div", { class: "wb-bar wb-opener" }, labelled("Model", model, list), browse, file, labelled("Target", target, typed), more, profile, cancel, upload);
  let sessions = new Set();
  let sending = null;
  let shownModel = "";
  let begun = null; // the engine that Python chose last, and its Python

  profile.addEventListener("click", open);
  cancel.addEventListener("click", () => part.send("cancel"));
  model.addEventListener("keydown", (event) => event.key === "Enter" && !profile.disabled && open());
  model.addEventListener("focus", () => part.send("sessions"));
  engine.addEventListener("change", () => {
    showEngine();
    considerEngine();
  });
  python.addEventListener("change", considerEngine);
  python.addEventListener("keydown", (event) => event.key === "Enter" && considerEngine());
  target.addEventListener("change", () => (typed.hidden = target.value !== OTHER));
  browse.addEventListener("click", () => file.click());
  file.addEventListener("change", () => file.files[0] && send(file.files[0]));
  takeDrops(part, {
    onOver: (over) => row.classList.toggle("wb-dropping", over),
    onFile: send,
  });

  function open() {
    const chosen = model.value.trim();
    part.send("open", {
      model: chosen,
      is_session: sessions.has(chosen),
      target: target.value === OTHER ? typed.value : target.value,
      layout: layout.value || "keep",
      shapes: shapes.value,
      args: args.value,
      trust: trust.checked,
      refresh: again.checked,
      kernel: kernel.value,
      ...engineChoice(engine.value, python.value),
    });
  }

  /** Have what the engine lacks be said before a model is opened. */
  function considerEngine() {
    part.send("engine", engineChoice(engine.value, python.value));
  }

  function showEngine() {
    old.hidden = chip.hidden = engine.value !== RELAY;
  }

  /** Take the engine that Python begins with, or opened a model with; what is chosen here since then stays. */
  function takeEngine(choices) {
    const chosen = engine.value;
    engine.replaceChildren(...choices.engines.map(({ value, label }) => element("option", { value }, label)));
    pythons.replaceChildren(...choices.pythons.map(({ value, label }) => element("option", { value }, label)));
    const isNew = begun?.engine !== choices.engine || begun?.python !== choices.python;
    engine.value = isNew ? choices.engine : chosen;
    if (isNew) python.value = choices.python;
    if (!begun) more.open = choices.engine === RELAY;
    begun = { engine: choices.engine, python: choices.python };
    showEngine();
  }

  function forget() {
    sending = null;
    file.value = "";
  }

  function send(chosen) {
    sending = { file: chosen, rest: pieces(chosen.size, PIECE_BYTES) };
    upload.textContent = `${chosen.name}: 0 %`;
    sendPiece();
  }

  async function sendPiece() {
    const mine = sending;
    if (!mine?.rest.length) {
      if (mine) upload.textContent = `${mine.file.name} is empty.`;
      return forget();
    }
    const [offset, length] = mine.rest.shift();
    const buffer = await mine.file.slice(offset, offset + length).arrayBuffer();
    if (mine === sending && !part.signal.aborted) part.send("upload", { name: mine.file.name, size: mine.file.size, offset }, [buffer]);
  }

  return {
    element: row,
    uploading(received) {
      if (!sending) return;
      upload.textContent = `${sending.file.name}: ${Math.floor((100 * received) / sending.file.size)} %`;
      sendPiece();
    },
    /** The file is not taken; why is told where all problems are. */
    refused() {
      if (sending) upload.textContent = `${sending.file.name} was not taken.`;
      forget();
    },
    uploaded(path) {
      if (sending) upload.textContent = `${sending.file.name} is here.`;
      forget();
      model.value = path;
      profile.focus();
    },
    choose(choices) {
      if (!choices?.models) return;
      sessions = new Set(choices.sessions.map(({ value }) => value));
      list.replaceChildren(
        ...choices.sessions.map(({ value, label }) => element("option", { value }, `session ${label}`)),
        ...choices.models.map(({ value, about }) => element("option", { value }, about)),
      );
      const before = target.value;
      target.replaceChildren(
        ...(choices.targets.length ? choices.targets : [{ value: "auto", label: "this machine" }]).map(({ value, label }) => element("option", { value }, label)),
        element("option", { value: OTHER }, "JSON, a tag, or TVM's own form …"),
      );
      target.value = before || "auto";
      if (!target.value) target.value = "auto";
      const environment = kernel.value;
      kernel.replaceChildren(
        element("option", { value: "" }, "the notebook's own"),
        ...(choices.kernels ?? []).map(({ value, label }) => element("option", { value, selected: value === environment }, label)),
      );
      takeEngine(choices);
      layout.replaceChildren(...choices.layouts.map((value) => element("option", { value }, value === "keep" ? "the model's own" : value)));
    },
    show(view) {
      const may = view.actions.includes("open");
      profile.disabled = !may;
      profile.classList.toggle("wb-primary", !view.profiled);
      for (const control of [model, browse, target, typed, engine, python]) control.disabled = !may;
      cancel.hidden = !view.actions.includes("cancel");
      const isOpen = view.profiled && view.phase !== "preparing"; // a session that is being opened is called what its folder is called
      if (isOpen && view.model && view.model !== shownModel && document.activeElement !== model && !sending) {
        shownModel = view.model;
        if (!model.value) model.value = view.model;
      }
    },
  };
}
