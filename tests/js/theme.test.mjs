import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { contrast } from "../../workbench/notebook/graph/colors.mjs";

const READABLE = 4.5;
const FILES = ["theme.css", "inspector/inspector.css"];
const STYLES = FILES.map((file) => readFileSync(new URL(`../../workbench/notebook/${file}`, import.meta.url), "utf8"));
const PLACES = ["bg", "surface", "raised"];
const ON = {
  text: [...PLACES, "hover", "focus", "accent-soft", "good-soft", "warn-soft", "bad-soft"],
  muted: [...PLACES, "hover", "focus"],
  accent: [...PLACES, "hover", "focus", "accent-soft"],
  good: [...PLACES, "good-soft"],
  warn: [...PLACES, "warn-soft"],
  bad: [...PLACES, "bad-soft"],
  "accent-text": ["accent"],
  ...Object.fromEntries(["keyword", "name", "type", "number", "string", "comment", "call"].map((kind) => [`code-${kind}`, ["bg", "code-added", "code-removed"]])),
};

/** The colours of one theme; the dark one changes those of the light one. */
function coloursOf(theme) {
  const found = (text) => [...text.matchAll(/--wb-([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, colour]) => [name, colour]);
  const halves = STYLES.map((style) => style.split('[data-wb-theme="dark"] {'));
  return Object.fromEntries([...halves.flatMap(([light]) => found(light)), ...(theme === "dark" ? halves.flatMap(([, dark]) => found(dark)) : [])]);
}

for (const theme of ["light", "dark"]) {
  test(`all text can be read wherever it stands, in ${theme}`, () => {
    const colours = coloursOf(theme);
    const faint = Object.entries(ON).flatMap(([text, places]) =>
      places.map((place) => [text, place, contrast(colours[text], colours[place])]).filter(([, , ratio]) => ratio < READABLE),
    );
    assert.deepEqual(faint, []);
  });
}
