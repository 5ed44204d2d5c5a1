// Light or dark before anything is drawn: what was chosen here before, else what the system prefers.
(function () {
  let chosen = null;
  try { chosen = window.localStorage.getItem("mantine-color-scheme-value"); } catch (error) { chosen = null; }
  const dark = chosen === "dark" || (chosen !== "light" && window.matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
})();
