// What both pages share. Text reaches the page as text only: nothing here makes HTML of a string.

// What could reorder or hide text (control, format and unpaired characters) becomes visible, as on the terminal.
export const clean = (text) => String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu,
  (char) => (char === "\n" || char === "\t" ? char : "\uFFFD"));

export const hasHidden = (text) => /[\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(text);

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    element.append(typeof child === "object" ? child : clean(child));
  }
  return element;
}

// The answer of the server as {ok, status, data}; status 0 when none came.
export async function ask(path, sent) {
  const options = sent === undefined ? {} : {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(sent),
  };
  try {
    const response = await fetch(path, options);
    const data = await response.json();
    return { ok: response.ok, status: response.status, data };
  } catch {
    return { ok: false, status: 0, data: { error: "the server does not answer" } };
  }
}
