"use strict";
// Every number and sentence was made beforehand, one set for each budget; this script only shows one of them.
(() => {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("data").textContent);
  const slider = find("slider"), number = find("number"), wrong = find("wrong");
  const column = find("column"), accepted = find("accepted"), answer = find("answer");
  const rows = [...find("budgets").tBodies[0].rows];
  const amounts = data.budgets.map((one) => Number(one.amount));

  const put = (id, text) => { const found = find(id); if (found) found.textContent = text; };
  const list = (id, texts, tag, kind) => find(id).replaceChildren(...texts.map((text) => {
    const item = document.createElement(tag);
    if (kind) item.className = kind;
    item.textContent = text;
    return item;
  }));

  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const pairRow = ([first, second, text, sample, measured, length]) => {
    const row = document.createElement("tr"), head = document.createElement("th");
    head.scope = "row";
    const [one, other] = [first, second].map((at) => {
      const name = document.createElement("bdi");
      name.textContent = data.columns[at][0];
      return name;
    });
    head.append(one, " and ", other);
    row.append(head, ...[text, sample, measured].map((words) => {
      const cell = document.createElement("td");
      cell.textContent = words;
      return cell;
    }));
    const bar = svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none" });
    bar.append(svg("rect", { class: "released", width: length, height: 10 }));
    const cell = document.createElement("td");
    cell.setAttribute("aria-hidden", "true");
    cell.append(bar);
    row.append(cell);
    return row;
  };
  const showPairs = (one) => {
    if (find("pairs-unknown")) list("pairs-unknown", one.pairsUnknown, "li");
    if (!find("pairs-known")) return;
    find("pairs-known").hidden = !one.pairs;
    if (!one.pairs) return;
    put("pairs-mean", one.pairs.texts[0]);
    put("pairs-largest", one.pairs.texts[1]);
    put("pairs-measured", one.pairs.measured);
    find("pairs").replaceChildren(...one.pairs.rows.map(pairRow));
  };

  const show = (place) => {
    const one = data.budgets[place], risk = one.risks[Number(wrong.value)];
    slider.value = place;
    slider.setAttribute("aria-valuetext", one.label);
    put("amount", one.amount);
    put("words", risk ? risk[1] : "No mechanism meets this budget.");
    find("power").setAttribute("width", risk ? Math.min(100, Number(risk[0])) : 0);
    find("guess").setAttribute("x", data.wrong[Number(wrong.value)]);
    for (const name of ["epsilon", "mechanism", "delta", "size", "why", "w1", "times", "left", "command", "python"])
      put(name, one[name]);
    put("from-data", one.fromData);
    list("verdict", one.verdict, "p", "alarm");
    list("cells", one.cells, "li");
    list("promised", one.promised, "li");
    list("not-promised", one.not, "li");
    [...find("errors").rows].forEach((row, i) => {
      const [text, share, , length] = one.errors[i];
      row.querySelector("td span").textContent = text;
      row.querySelector("td small").textContent = share;
      row.querySelector("rect").setAttribute("width", length);
    });
    showPairs(one);
    for (const row of rows) row.removeAttribute("aria-current");
    rows[place].setAttribute("aria-current", "true");
    put("copied", "");
  };
  const choose = (place, said) => {
    answer.textContent = said;
    show(place);
  };

  // The largest error that was computed, of one column, of all together or of pairs; null where it was not predicted.
  const shownError = (one) => {
    const at = Number(column.value);
    if (at >= 0) return one.errors[at][2];
    if (at < -1) return one.pairs ? one.pairs.values[-2 - at] : null;
    return one.w1 === "-" ? null : Number(one.w1);
  };
  const measure = () => {
    const at = Number(column.value);
    if (at < -1) put("measured", "In % of records with another pair of values.");
    else put("measured", at >= 0 ? `In ${data.columns[at][1] || "the unit of the column"}.` : "W1: the errors of all columns, each as a share of its range, added up.");
  };

  slider.addEventListener("input", () => {
    const place = Number(slider.value);
    number.value = data.budgets[place].amount;
    choose(place, "");
  });
  number.addEventListener("input", () => {
    const asked = Number(number.value);
    if (number.value === "" || !(asked > 0)) return;
    const fits = amounts.filter((amount) => amount <= asked).length - 1;  // never more than was asked for
    if (fits < 0) answer.textContent = `The least on this page is ${data.budgets[0].label}.`;
    else choose(fits, amounts[fits] === asked ? "" : `This shows ${data.budgets[fits].label}, the next lower one on this page.`);
  });
  const accept = () => {
    measure();
    const most = Number(accepted.value);
    if (accepted.value === "" || !(most >= 0)) return;
    const place = data.budgets.findIndex((one) => shownError(one) !== null && shownError(one) <= most);
    if (place < 0) { answer.textContent = `No ${data.named} on this page is predicted to have an error that small.`; return; }
    number.value = data.budgets[place].amount;
    choose(place, `The least whose predicted error is no larger is ${data.budgets[place].label}.`);
  };
  accepted.addEventListener("input", accept);
  column.addEventListener("change", accept);
  wrong.addEventListener("change", () => show(Number(slider.value)));
  find("controls").addEventListener("submit", (event) => event.preventDefault());

  const selected = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const element = find(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(element.textContent);
        put("copied", "Copied.");
      } catch {
        selected(element);
        put("copied", "Selected. Copy it with the keyboard.");
      }
    });
  }

  // A browser that goes back keeps what was chosen in the fields.
  wrong.value = data.usual;
  accepted.value = "";
  number.value = data.budgets[data.own].amount;
  find("controls").hidden = false;
  measure();
  show(data.own);
})();
