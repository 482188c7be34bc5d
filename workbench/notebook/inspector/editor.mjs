/** Texts in CodeMirror: one to read, or two side by side; a chosen name is marked wherever it stands. */

import { defaultKeymap } from "@codemirror/commands";
import { bracketMatching, codeFolding, foldGutter, foldKeymap, syntaxHighlighting } from "@codemirror/language";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, RangeSetBuilder } from "@codemirror/state";
import { Decoration, EditorView, MatchDecorator, ViewPlugin, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

import { highlighting } from "./languages.mjs";
import { nameAt, wholeWord } from "./views.mjs";

/** Colours are variables of theme.css, so that light and dark need nothing here. */
const LOOK = EditorView.theme({
  "&": { backgroundColor: "var(--wb-bg)", color: "var(--wb-text)", fontSize: "12px", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--wb-mono)", lineHeight: "1.45", overflow: "auto" },
  ".cm-gutters": { backgroundColor: "var(--wb-surface)", borderRight: "1px solid var(--wb-border)", color: "var(--wb-muted)" },
  ".cm-content": { caretColor: "var(--wb-text)" },
  ".cm-cursor": { borderLeftColor: "var(--wb-text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--wb-accent-soft)" },
  ".cm-panels": { backgroundColor: "var(--wb-surface)", color: "var(--wb-text)" },
  ".cm-searchMatch": { backgroundColor: "var(--wb-focus)", outline: "1px solid var(--wb-focus-edge)" },
  ".cm-selectionMatch": { backgroundColor: "var(--wb-accent-soft)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--wb-surface)", borderColor: "var(--wb-border)", color: "var(--wb-muted)" },
});

const nameMarks = new Compartment();
const lineMarks = new Compartment();

/** @param {{language: string, label: string, onName?: (name: string) => void}} options */
function reading({ language, label, onName }) {
  return [
    lineNumbers(),
    foldGutter(),
    codeFolding(),
    highlightSpecialChars(),
    bracketMatching(),
    highlightSelectionMatches(),
    search({ top: true }),
    keymap.of([...searchKeymap, ...foldKeymap, ...defaultKeymap]),
    EditorState.readOnly.of(true),
    EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": "true" }),
    syntaxHighlighting(classHighlighter),
    highlighting(language),
    LOOK,
    nameMarks.of([]),
    lineMarks.of([]),
    onName ? EditorView.domEventHandlers({ click: (event, view) => clicked(event, view, onName) }) : [],
  ];
}

function clicked(event, view, onName) {
  if (!view.state.selection.main.empty) return false;
  const place = view.posAtCoords({ x: event.clientX, y: event.clientY });
  if (place === null) return false;
  const line = view.state.doc.lineAt(place);
  onName(nameAt(line.text, place - line.from), line.number);
  return false;
}

/** One text. */
export function showText(parent, text, options) {
  const view = new EditorView({ parent, state: EditorState.create({ doc: text, extensions: reading(options) }) });
  return {
    /** Marks a name as a whole word, and lines that are about it; shows the first of them. */
    mark(name, lines = [], { scroll = false } = {}) {
      view.dispatch({ effects: [nameMarks.reconfigure(name ? nameMarker(name) : []), lineMarks.reconfigure(lineMarker(view.state, lines))] });
      if (!scroll || !name) return;
      const first = lines.length ? view.state.doc.line(Math.min(lines[0].first, view.state.doc.lines)).from : text.search(wholeWord(name));
      if (first >= 0) view.dispatch({ effects: EditorView.scrollIntoView(first, { y: "center" }) });
    },
    end: () => view.destroy(),
  };
}

/**
 * Two texts: side by side, or one below the other in one column where it is narrow.
 *
 * @param {{text: string, label: string}} left
 * @param {{text: string, label: string}} right
 */
export function showDiff(parent, left, right, { language, narrow }) {
  const limits = { scanLimit: 20_000, timeout: 800 };
  const collapse = { margin: 3, minSize: 8 };
  if (narrow) {
    const extensions = [
      ...reading({ language, label: `${right.label} beside ${left.label}` }),
      unifiedMergeView({ original: left.text, mergeControls: false, collapseUnchanged: collapse, diffConfig: limits }),
    ];
    const view = new EditorView({ parent, state: EditorState.create({ doc: right.text, extensions }) });
    return { end: () => view.destroy() };
  }
  const side = ({ text, label }) => ({ doc: text, extensions: reading({ language, label }) });
  const view = new MergeView({ a: side(left), b: side(right), parent, collapseUnchanged: collapse, diffConfig: limits, gutter: true });
  return { end: () => view.destroy() };
}

function nameMarker(name) {
  const matcher = new MatchDecorator({ regexp: wholeWord(name), decoration: Decoration.mark({ class: "wb-name" }) });
  return ViewPlugin.define(
    (view) => ({
      marks: matcher.createDeco(view),
      update(update) {
        this.marks = matcher.updateDeco(update, this.marks);
      },
    }),
    { decorations: (plugin) => plugin.marks },
  );
}

function lineMarker(state, lines) {
  const numbers = new Set();
  for (const { first, last } of lines) for (let number = first; number <= Math.min(last, state.doc.lines); number += 1) numbers.add(number);
  const marks = new RangeSetBuilder();
  for (const number of [...numbers].sort((a, b) => a - b)) marks.add(state.doc.line(number).from, state.doc.line(number).from, Decoration.line({ class: "wb-linked" }));
  return EditorView.decorations.of(marks.finish());
}
