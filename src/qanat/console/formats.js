/** Numbers, times, bytes and records as text. Everything here returns strings; nothing makes markup. */

const NUMBER = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];
const NONE = "–";

const isNone = (value) => value === null || value === undefined;

/** 1,234,567 */
export const count = (value) => (isNone(value) ? NONE : NUMBER.format(value));

/** 1.2M */
export const short = (value) => (isNone(value) ? NONE : value >= 10000 ? SHORT.format(value) : NUMBER.format(value));

/** 12.3 MB */
export function bytes(value) {
  if (isNone(value)) return NONE;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** A rate: 12.3/s; nothing moves: 0 */
export function rate(value) {
  if (isNone(value)) return NONE;
  if (!value) return "0";
  return value < 10 ? `${value.toFixed(1)}/s` : `${short(Math.round(value))}/s`;
}

export const byteRate = (value) => (isNone(value) ? NONE : value ? `${bytes(value)}/s` : "0");

/** 3 min 20 s */
export function seconds(value) {
  if (isNone(value)) return NONE;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400)} d`;
}

/** 2026-01-31 12:00:00.000, in the reader's zone */
export function time(ms) {
  if (isNone(ms) || ms < 0) return NONE;
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** @param {string} text base64 @returns {Uint8Array} */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}

/** The bytes of a record's value or key, as `encoding=text` sends them. */
export function contentOf(text, encoding) {
  if (isNone(text)) return null;
  return encoding === "base64" ? fromBase64(text) : new TextEncoder().encode(text);
}

/** Offset, sixteen bytes, and what of them is ASCII; the first 64 KB. */
export function hex(content) {
  const lines = [];
  const shown = content.subarray(0, 65536);
  for (let at = 0; at < shown.length; at += 16) {
    const row = [...shown.subarray(at, at + 16)];
    const digits = row.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  if (shown.length < content.length) lines.push(`… ${content.length - shown.length} more bytes`);
  return lines.join("\n");
}

/** What the content of a value looks like. */
export function kindOf(content) {
  if (content === null) return "null";
  if (content.length > 5 && content[0] === 0) {
    const id = (content[1] << 24) | (content[2] << 16) | (content[3] << 8) | content[4];
    if (id > 0 && id < 10_000_000) return `schema ${id}`;
  }
  return "";
}

export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * JSON with indents, from its text: numbers stay as they are written, however long.
 * @param {string} text valid JSON
 */
export function indented(text) {
  let depth = 0;
  let made = "";
  for (let at = 0; at < text.length; at += 1) {
    const one = text[at];
    if (one === '"') {
      const end = endOfString(text, at);
      made += text.slice(at, end);
      at = end - 1;
    } else if (one === "{" || one === "[") {
      const close = nextVisible(text, at + 1);
      if (text[close] === "}" || text[close] === "]") {
        made += one + text[close];
        at = close;
      } else {
        depth += 1;
        made += one + "\n" + "  ".repeat(depth);
      }
    } else if (one === "}" || one === "]") {
      depth -= 1;
      made += "\n" + "  ".repeat(depth) + one;
    } else if (one === ",") made += ",\n" + "  ".repeat(depth);
    else if (one === ":") made += ": ";
    else if (!/\s/.test(one)) made += one;
  }
  return made;
}

function endOfString(text, begin) {
  let at = begin + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

function nextVisible(text, at) {
  while (/\s/.test(text[at])) at += 1;
  return at;
}

/** A cell of CSV: quoted, and never a formula for a spreadsheet. */
export function csvCell(value) {
  const text = isNone(value) ? "" : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** Saves text as a file of the reader. */
export function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name.replaceAll(/[^\w.-]/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
