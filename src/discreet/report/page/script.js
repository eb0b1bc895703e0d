"use strict";
// The table holds every number; the slider only chooses a row of it. Without this script the table is read instead.
(() => {
  const find = (id) => document.getElementById(id);
  const rows = [...find("rates").tBodies[0].rows];
  const slider = find("rate");
  const show = () => {
    const row = rows[Number(slider.value)];
    const [level, power, , joint] = [...row.cells].map((cell) => cell.textContent);
    find("level").textContent = level;
    find("power").textContent = power;
    find("words").textContent = row.dataset.words;
    if (joint) find("joint").textContent = joint;
    find("spot").setAttribute("cx", row.dataset.x);
    find("spot").setAttribute("cy", row.dataset.y);
    for (const other of rows) other.removeAttribute("aria-current");
    row.setAttribute("aria-current", "true");
    const box = find("rates").parentElement;
    box.scrollTop = row.offsetTop - box.clientHeight / 2;
    slider.setAttribute("aria-valuetext", `${level} false alarms, at most ${power} detected`);
  };
  find("control").hidden = false;
  slider.addEventListener("input", show);
  show();

  const button = find("theme");
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const name = () => { button.textContent = dark() ? "Light colours" : "Dark colours"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
})();
