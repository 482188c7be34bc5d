import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { contrast } from "../../workbench/notebook/graph/colors.mjs";

const READABLE = 4.5;
const STYLE = readFileSync(new URL("../../workbench/notebook/theme.css", import.meta.url), "utf8");
const PLACES = ["bg", "surface", "raised"];
const ON = {
  text: [...PLACES, "hover", "focus", "accent-soft", "good-soft", "warn-soft", "bad-soft"],
  muted: [...PLACES, "hover", "focus"],
  accent: [...PLACES, "hover", "focus", "accent-soft"],
  good: [...PLACES, "good-soft"],
  warn: [...PLACES, "warn-soft"],
  bad: [...PLACES, "bad-soft"],
  "accent-text": ["accent"],
};

/** The colours of one theme; the dark one changes those of the light one. */
function coloursOf(theme) {
  const [light, dark] = STYLE.split('.wb-part[data-wb-theme="dark"]');
  const found = (text) => [...text.matchAll(/--wb-([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, colour]) => [name, colour]);
  return Object.fromEntries([...found(light), ...(theme === "dark" ? found(dark) : [])]);
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
