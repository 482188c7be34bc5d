/** The two things that a drawing can be painted on: a canvas, and the text of an SVG file. */

const FAMILY = 'system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif';
const fontOf = ({ size, bold }) => `${bold ? "600 " : ""}${size}px ${FAMILY}`;
const ELLIPSIS = "…";
const REMEMBERED = 20_000;

/** Shortens texts to a width; `measure` gives the width of a text in a font. */
export class Shortener {
  constructor(measure) {
    this.measure = measure;
    this.known = new Map();
  }

  /** The text and its width; of one that has no room the end is left out, or with `tail` the beginning. */
  fit(text, { room, size, bold = false, tail = false }) {
    const key = `${bold ? 1 : 0}${tail ? 1 : 0}|${size}|${Math.floor(room)}|${text}`;
    const known = this.known.get(key);
    if (known) return known;
    if (this.known.size > REMEMBERED) this.known.clear();
    const fitted = this.shorten(text, fontOf({ size, bold }), room, tail);
    this.known.set(key, fitted);
    return fitted;
  }

  shorten(text, font, room, tail) {
    const whole = this.measure(text, font);
    if (whole <= room) return { text, width: whole };
    let fits = 0;
    let more = text.length;
    const cut = (count) => (tail ? ELLIPSIS + text.slice(text.length - count) : text.slice(0, count) + ELLIPSIS);
    while (fits < more) {
      const middle = (fits + more + 1) >> 1;
      if (this.measure(cut(middle), font) <= room) fits = middle;
      else more = middle - 1;
    }
    const short = fits ? cut(fits) : "";
    return { text: short, width: this.measure(short, font) };
  }
}

/** A shortener that measures with a canvas of its own. */
export function pageShortener() {
  const context = document.createElement("canvas").getContext("2d");
  return new Shortener((text, font) => {
    if (context.font !== font) context.font = font;
    return context.measureText(text).width;
  });
}

export class CanvasSurface {
  constructor(context, shortener) {
    this.context = context;
    this.shortener = shortener;
  }

  box(x, y, width, height, { fill, stroke, line, dash = null, radius, alpha = 1 }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.beginPath();
    if (radius) context.roundRect(x, y, width, height, radius);
    else context.rect(x, y, width, height);
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = line;
      context.setLineDash(dash ?? []);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  boxes(boxes, fill) {
    const { context } = this;
    context.fillStyle = fill;
    for (const { x, y, width, height } of boxes) context.fillRect(x, y, width, height);
  }

  text(text, x, y, { colour, size, bold = false, room, tail = false, alpha = 1 }) {
    const { context } = this;
    const fitted = this.shortener.fit(text, { room, size, bold, tail });
    context.globalAlpha = alpha;
    const font = fontOf({ size, bold });
    if (this.font !== font) context.font = this.font = font;
    context.fillStyle = colour;
    context.fillText(fitted.text, x, y);
    context.globalAlpha = 1;
    return fitted.width;
  }

  lines(segments, { stroke, line, straight }) {
    const { context } = this;
    context.strokeStyle = stroke;
    context.lineWidth = line;
    context.setLineDash([]);
    context.beginPath();
    for (const [x1, y1, x2, y2] of segments) {
      context.moveTo(x1, y1);
      if (straight || Math.abs(x1 - x2) < 0.5) context.lineTo(x2, y2);
      else context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
    }
    context.stroke();
  }
}

const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "");
const short = (number) => String(Math.round(number * 100) / 100);

export class SvgSurface {
  constructor(shortener) {
    this.shortener = shortener;
    this.parts = [];
  }

  box(x, y, width, height, { fill, stroke, line, dash = null, radius, alpha = 1 }) {
    const extra = `${dash ? ` stroke-dasharray="${dash.join(" ")}"` : ""}${alpha < 1 ? ` opacity="${alpha}"` : ""}`;
    const paint = `fill="${fill ?? "none"}"${stroke ? ` stroke="${stroke}" stroke-width="${short(line)}"` : ""}`;
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" rx="${short(radius ?? 0)}" ${paint}${extra}/>`);
  }

  boxes(boxes, fill) {
    for (const box of boxes) this.box(box.x, box.y, box.width, box.height, { fill, stroke: null, line: 0, radius: 0 });
  }

  text(text, x, y, { colour, size, bold = false, room, tail = false, alpha = 1 }) {
    const fitted = this.shortener.fit(text, { room, size, bold, tail });
    const extra = `${bold ? ' font-weight="600"' : ""}${alpha < 1 ? ` opacity="${alpha}"` : ""}`;
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" font-size="${size}" fill="${colour}"${extra}>${escaped(fitted.text)}</text>`);
    return fitted.width;
  }

  lines(segments, { stroke, line }) {
    if (!segments.length) return;
    const path = segments.map(([x1, y1, x2, y2]) => {
      const middle = short((y1 + y2) / 2);
      const to = `${short(x2)} ${short(y2)}`;
      return `M${short(x1)} ${short(y1)}${Math.abs(x1 - x2) < 0.5 ? `L${to}` : `C${short(x1)} ${middle} ${short(x2)} ${middle} ${to}`}`;
    });
    this.parts.push(`<path d="${path.join("")}" fill="none" stroke="${stroke}" stroke-width="${short(line)}"/>`);
  }

  /** The whole file. */
  file({ width, height, background, title, margin = 20 }) {
    const box = `${-margin} ${-margin} ${short(width + 2 * margin)} ${short(height + 2 * margin)}`;
    const size = `width="${short(width + 2 * margin)}" height="${short(height + 2 * margin)}"`;
    const ground = `<rect x="${-margin}" y="${-margin}" ${size} fill="${background}"/>`;
    const family = escaped(FAMILY);
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="${box}" font-family="${family}"><title>${escaped(title)}</title>${ground}${this.parts.join("\n")}</svg>\n`;
  }
}
