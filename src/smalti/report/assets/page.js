// What all pages use: the data, elements, numbers as text, colours of encodings, facts, the theme.
const model = JSON.parse(document.querySelector("script[type='application/json']").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const sum = (list) => list.reduce((a, b) => a + b, 0);
const number = (value) => value.toLocaleString("en-US");
const percent = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(1)} %`;
const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let left = value;
  while (left >= 1023.95 && unit < units.length - 1) { left /= 1024; unit += 1; }
  return unit === 0 ? `${number(value)} B` : `${left.toFixed(1)} ${units[unit]}`;
};

// A square in the colour of an encoding, and what it stands for.
function key(code, ...parts) {
  const line = make("span", "key");
  const swatch = make("i", "swatch");
  swatch.style.background = `var(--e${code})`;
  line.append(swatch, ...parts);
  return line;
}

// A bar with a piece for each [code of an encoding, weight].
function bar(pieces) {
  const line = make("span", "bar");
  line.append(...pieces.map(([code, weight]) => {
    const piece = make("i");
    piece.style.background = `var(--e${code})`;
    piece.style.flexGrow = weight;
    return piece;
  }));
  return line;
}

function drawFacts(facts) {
  $("facts").append(...facts.map(([name, value]) => {
    const fact = make("div");
    fact.append(make("dt", "", name), make("dd", "", value));
    return fact;
  }));
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  root.dataset.theme = isDark ? "light" : "dark";
});
