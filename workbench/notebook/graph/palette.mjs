/** The colours that are painted: those of the style sheet. */

/** The colours of a part as it looks now; null as long as it is in no page. */
export function readPalette(root) {
  const style = getComputedStyle(root);
  const colour = (name) => style.getPropertyValue(`--wb-${name}`).trim();
  const numbered = (name, from, to) => Array.from({ length: to - from + 1 }, (_, index) => colour(`${name}-${from + index}`));
  if (!colour("bg")) return null;
  return {
    bg: colour("bg"),
    surface: colour("surface"),
    raised: colour("raised"),
    text: colour("text"),
    soft: colour("graph-soft"),
    muted: colour("muted"),
    border: colour("border"),
    outline: colour("graph-outline"),
    edge: colour("graph-edge"),
    accent: colour("accent"),
    accentSoft: colour("accent-soft"),
    focusEdge: colour("focus-edge"),
    good: colour("good"),
    warn: colour("warn"),
    bad: colour("bad"),
    neutral: colour("series-8"),
    plain: colour("border"),
    off: colour("graph-edge"),
    heat: numbered("heat", 0, 4),
    series: numbered("series", 1, 9),
  };
}
