// What links and forms alone cannot do. Every page works without it.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("has-script");

  // Copies what an element shows, and says so where the button stands.
  async function copy(button) {
    const text = document.getElementById(button.dataset.copy).textContent;
    await navigator.clipboard.writeText(text);
    const said = button.querySelector("[data-said]");
    const before = said.textContent;
    said.textContent = button.dataset.copied;
    setTimeout(() => { said.textContent = before; }, 2000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button).catch(() => {
      const range = document.createRange();
      range.selectNodeContents(document.getElementById(button.dataset.copy));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    });
  });

  // One box that ticks all rows of this page, and how many are ticked.
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (!form || !form.matches("[data-picking]")) return;
    const boxes = [...form.querySelectorAll("input[name=event]")];
    if (event.target.matches("[data-all]")) boxes.forEach((box) => { box.checked = event.target.checked; });
    const ticked = boxes.filter((box) => box.checked).length;
    const all = form.querySelector("[data-all]");
    if (all) {
      all.checked = ticked === boxes.length && ticked > 0;
      all.indeterminate = ticked > 0 && ticked < boxes.length;
    }
    form.querySelectorAll("[data-ticked]").forEach((place) => { place.textContent = ticked ? ` ${ticked}` : ""; });
  });

  // A page that refreshes itself says so when it is not answered, and stands still when it is told to.
  let isPaused = false;
  const onRefresh = (name, act) => document.addEventListener(name, (event) => {
    if (event.target.id === "live") act(event);
  });
  function showAway(isAway) {
    root.classList.toggle("is-away", isAway);
    document.getElementById("away").hidden = !isAway;
  }
  onRefresh("htmx:before:request", (event) => { if (isPaused) event.preventDefault(); });
  onRefresh("htmx:after:request", (event) => showAway(event.detail.ctx.response.status >= 400));
  onRefresh("htmx:error", () => showAway(true));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-pause]");
    if (!button) return;
    isPaused = !isPaused;
    button.setAttribute("aria-pressed", isPaused);
  });

  // "Go back" goes to the page before this one, with what was typed there.
  document.addEventListener("click", (event) => {
    if (!event.target.closest("a[data-back]") || history.length < 2) return;
    event.preventDefault();
    history.back();
  });

  // What was typed outlives the end of a session: it is kept in this tab until the page after signing in, for who typed it
  // alone, and not over signing out; secrets never.
  const KEPT = "typed", isSignIn = location.pathname === "/sign-in";
  const fields = (form) => [...form.elements].filter((field) => field.name && !["hidden", "password"].includes(field.type));
  const kept = JSON.parse(sessionStorage.getItem(KEPT) || "null");
  if (!isSignIn) {
    sessionStorage.removeItem(KEPT);
    const form = kept && kept.wasOut && kept.person === document.body.dataset.person && kept.path === location.pathname && [...document.forms].find((each) => each.getAttribute("action") === kept.action);
    if (form) fields(form).forEach((field, place) => {
      const [name, value, isChecked] = kept.fields[place] || [];
      if (name !== field.name) return;
      field.value = value;
      field.checked = isChecked;
      if (field.closest("details")) field.closest("details").open = true;
    });
  } else if (kept) {
    sessionStorage.setItem(KEPT, JSON.stringify({ ...kept, wasOut: true }));
  }
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (isSignIn || !form || form.method !== "post" || form.querySelector("input[type=password]")) return;
    const typed = fields(form).map((field) => [field.name, field.value, field.checked]);
    sessionStorage.setItem(KEPT, JSON.stringify({ person: document.body.dataset.person, path: location.pathname, action: form.getAttribute("action"), fields: typed }));
  });

  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("action") === "/sign-out") sessionStorage.removeItem(KEPT);
  });

  // The browser's time zone, for whoever signs in and has chosen none.
  const zone = document.querySelector("input[data-zone]");
  if (zone) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";

  // "/" goes to the search box, unless somebody is typing.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const box = document.querySelector(".search input");
    if (box) { event.preventDefault(); box.focus(); }
  });
})();
