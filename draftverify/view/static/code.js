// Code in its colours: drafts, answers and what a task asks, where their language can be told. Text stays text.
import { library } from "./source.js";
import { el, nodes } from "./text.js";

const MOST = 20000; // characters; a longer text stays plain
const FENCED = /(^```.*\n[^]*?^```)/gm;
const SIGNS = [
  ["sql", /^\s*(?:with\s+\w+\s+as\b|select\b[^]*\bfrom\b|insert\s+into\b|update\s+\w+\s+set\b|delete\s+from\b|create\s+(?:table|view)\b)/i],
  ["python", /^[ \t]*(?:(?:async )?def \w+\(|class \w+.*:|import [\w.]+(?: as \w+)?$|from [\w.]+ import )/m],
  ["javascript", /^[ \t]*(?:(?:export )?(?:async )?function\b.*\(|(?:export )?(?:const|let) \w+ =|import .* from )/m],
];

/** The language of a text; null for prose, and for what is too long to colour. */
export function languageOf(text) {
  if (text.length > MOST) return null;
  if (/^\s*[[{]/.test(text)) {
    try {
      JSON.parse(text);
      return "json";
    } catch { /* another language may begin so */ }
  }
  return SIGNS.find(([, sign]) => sign.test(text))?.[0] ?? null;
}

/** Put a text into an element: at once as it is, and in colours when they are there. Of a text with ``` fences what is within. */
export function code(element, text, language = null) {
  const fenced = !language && text.length <= MOST && /^```/m.test(text);
  const parts = fenced ? text.split(FENCED) : [text];
  const spoken = parts.map((part) => language ?? (fenced && !part.startsWith("```") ? null : languageOf(part)));
  element.replaceChildren(nodes(text));
  if (spoken.some(Boolean)) library("prism").then((prism) => element.replaceChildren(
    ...parts.flatMap((part, place) => (spoken[place] ? colored(prism.tokenize(part, prism.languages[spoken[place]])) : [nodes(part)]))));
  return element;
}

const colored = (tokens) => tokens.map((token) => (typeof token === "string" ? nodes(token)
  : el("span", { class: `code-${token.type}` }, colored([token.content].flat()))));
