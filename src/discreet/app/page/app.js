"use strict";
// The server knows everything; this script sends a form as it is typed, and looks again while a command runs.
(() => {
  const find = (id) => document.getElementById(id);
  const send = (address, body) => fetch(address, { method: "POST", body, credentials: "same-origin" });

  const enter = async (note) => {
    const token = location.hash.slice(1);
    if (!token) return;
    history.replaceState(null, "", "/");
    const answer = await send("/enter", new URLSearchParams({ token }));
    if (answer.ok) location.replace((await answer.json()).next);
    else note.textContent = await answer.text();
  };
  if (find("entrance")) {
    enter(find("entrance"));
    return;
  }
  const base = document.body.dataset.base;
  new EventSource(`${base}/alive`);  // while it is open, so is a window

  const declare = (form) => {
    let waiting = 0, sent = 0;
    const fit = (column) => {
      const type = column.querySelector(".type"), kind = type.value;
      column.querySelector(".more").hidden = ["", "leave out"].includes(kind);
      // a column that is not released is no outcome
      find(`o${type.name.split(".")[0]}`).parentElement.hidden = kind === "leave out";
      for (const field of column.querySelectorAll("[data-kinds]")) {
        field.hidden = !field.dataset.kinds.split(" ").includes(kind);
      }
    };
    const check = async () => {
      const turn = ++sent;
      const answer = await send(form.dataset.check, new URLSearchParams(new FormData(form)));
      if (!answer.ok || turn !== sent) return;
      const { toml, states, verdict } = await answer.json();
      find("toml").textContent = toml;
      states.forEach(([text, wrong], place) => {
        const state = find(`state${place}`);
        state.textContent = text;
        state.classList.toggle("wrong", wrong);
      });
      find("verdict").textContent = verdict;
    };
    const typed = (event) => {
      const column = event.target.closest(".column");
      if (column && event.target.classList.contains("type")) fit(column);
      if (event.target.name === "rows") form.dataset.rows = event.target.value;
      if (event.target.name.startsWith("slots")) event.target.closest("[data-slots]").dataset.slots = event.target.value;
      clearTimeout(waiting);
      waiting = setTimeout(check, 250);
    };
    form.addEventListener("input", typed);
    form.addEventListener("change", typed);
  };
  if (find("declaration")) declare(find("declaration"));

  const begun = Date.now();
  const follow = async (job) => {
    const answer = await fetch(`${base}/jobs/${job.dataset.number}/facts`, { credentials: "same-origin" });
    if (!answer.ok) return;
    const { running, done, total } = await answer.json();
    if (!running) {
      location.reload();
      return;
    }
    const bar = find("bar");
    if (total) {
      bar.max = total;
      bar.value = done;
      find("state").textContent = `Running: ${done.toLocaleString("en")} of ${total.toLocaleString("en")}.`;
    } else {
      find("state").textContent = `Running for ${Math.round((Date.now() - begun) / 1000)} s.`;
    }
    setTimeout(() => follow(job), 500);
  };
  const inner = find("inner"), next = find("next");
  const carry = () => {  // the budget that was chosen on the page of budgets goes on to the release
    const page = inner.contentDocument, number = page && page.getElementById("number");
    if (!number) return;
    const put = () => { next.href = `${base}/release?epsilon=${encodeURIComponent(number.value)}`; };
    for (const kind of ["input", "change"]) page.addEventListener(kind, () => setTimeout(put));
    put();
  };
  if (inner && next) {
    inner.addEventListener("load", carry);
    carry();
  }

  const job = find("job");
  if (job && job.dataset.running === "yes") follow(job);
})();
