// What holds on every page; it stands in the page itself.

// A field whose Enter was taken asks for none (page.css).
for (const kind of ["input", "keydown"])
  document.addEventListener(kind, ({ target, key }) => { if (!key || key === "Enter") target.toggleAttribute("data-applied", Boolean(key)); }, true);

// The list of pages, which covers a narrow window, closes once one is chosen.
document.addEventListener("click", ({ target }) => {
  if (innerWidth < 641 && target.closest("[data-testid=stSidebarNavLink]")) setTimeout(() => document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click());
});

// A click into a number that waits for none takes all of it, so that what is typed replaces it: a 4 typed behind a 1 asked for 14 GPUs.
let untouched = null;
for (const kind of ["focusin", "keydown", "click"])
  document.addEventListener(kind, (event) => {
    const [field] = event.composedPath(); // the sliders' own stand in a component
    if (!field.matches("input[type=number], input[type=text]") || !/^[\d.,]+$/.test(field.value)) return;
    if (kind === "click" && untouched === field) field.select();
    untouched = kind === "focusin" || event.key === "Enter" ? field : null;
  });
