// Text into the DOM: model text is hostile, so it goes in as text nodes alone, and what could steer its display is named.

const STEERING = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]+/gu;
const NAMED = 6; // of a run of such characters; the others are counted

/** A command as a shell takes it. */
export const typed = (command) => command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");

/** The text's nodes: control, format (bidirectional, zero-width) and unpaired characters are shown by their numbers. */
export function nodes(text) {
  const found = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(STEERING)) {
    const chars = [...match[0]];
    if (chars.every((char) => char === "\n" || char === "\t")) continue;
    found.append(text.slice(from, match.index));
    let hidden = [];
    const flush = () => {
      if (!hidden.length) return;
      const named = hidden.slice(0, NAMED).map((char) => "U+" + char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0"));
      if (hidden.length > NAMED) named.push(`and ${hidden.length - NAMED} more`);
      found.append(el("span", { class: "ctl", title: "a character that is not shown" }, named.join(" ")));
      hidden = [];
    };
    for (const char of chars) {
      if (char === "\n" || char === "\t") {
        flush();
        found.append(char);
      } else hidden.push(char);
    }
    flush();
    from = match.index + match[0].length;
  }
  found.append(text.slice(from));
  return found;
}

/** The text as one plain string, for titles, options and chart labels. */
export function plain(text, most = 200) {
  const cleaned = String(text).replace(STEERING, (run) => (/^[\n\t]+$/.test(run) ? " " : "\ufffd"));
  return cleaned.length > most ? cleaned.slice(0, most - 1) + "…" : cleaned;
}

/** Names of at most so many characters: what those that begin alike have in common goes first, then the middle, so that they stay apart. */
export function shortened(names, most) {
  const words = names.map((name) => name.split(/(?<=[@,/=·\s])/));
  return words.map((own, place) => {
    if (names[place].length <= most) return names[place];
    const family = words.filter((other) => other[0] === own[0]);
    let alike = 0;
    while (family.length > 1 && alike < own.length - 1 && family.every((other) => other[alike] === own[alike])) alike++;
    const rests = Array.from({ length: alike }, (_, dropped) => `…${own.slice(dropped + 1).join("")}`);
    const rest = rests.at(-1) ?? names[place];
    const half = Math.max(2, (most - 1) / 2);
    return rests.find((text) => text.length <= most) ?? `${rest.slice(0, Math.ceil(half))}…${rest.slice(-Math.floor(half))}`;
  });
}

/** An element. Strings among the children become safe text; null and false are left out. */
export function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : nodes(String(child)));
  }
  return made;
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(value > 0 && value < 0.0995 ? 1 : 0)} %`);
export const times = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(value < 10 ? 2 : 1)}×`);
export const count = (value) => (value ?? 0).toLocaleString("en-US");
export const digits = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(3))));

/** Seconds in the unit that reads best. */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 90) return `${(value / 60).toFixed(1)} min`;
  if (value >= 1) return `${value.toFixed(2)} s`;
  if (value >= 1e-3) return `${(1e3 * value).toFixed(value >= 0.1 ? 0 : 1)} ms`;
  return value === 0 ? "0 s" : `${(1e6 * value).toFixed(value >= 1e-6 ? 0 : 3)} µs`;
}

/** A figure with its interval, where that says anything (`is_known` of `draftverify.bench.tables.figures`). */
export function figure(found, write, { interval = true, kind = null } = {}) {
  if (!found || found.value === null) return el("span", { class: "soft" }, "–");
  if (interval && found.known === false) return el("span", { class: "soft whole" }, "not known yet");
  return el("span", {}, el(kind ? "b" : "span", { class: `value ${kind ?? ""}` }, write(found.value)),
    interval ? el("span", { class: "between" }, ` ${write(found.low)} – ${write(found.high)}`.replace(/ %|×/g, "")) : null);
}

/** What was measured on the tasks that ran, which stands alone as long as its interval says nothing. */
export const measured = (found, write) => figure(found, write, { interval: Boolean(found?.known) });

/** A table: headings are strings, or {text, n} for numbers. */
export function table(headings, rows, attributes) {
  const number = headings.map((heading) => heading.n);
  return el("div", { class: "scroll" }, el("table", attributes,
    el("thead", {}, el("tr", {}, headings.map((heading, index) => el("th", { class: number[index] ? "n" : null, scope: "col" }, heading.text ?? heading)))),
    el("tbody", {}, rows.map((row) => row instanceof Node ? row
      : el("tr", {}, row.map((cell, index) => el("td", { class: number[index] ? "n" : null }, cell)))))));
}
