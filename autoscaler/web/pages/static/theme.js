// Sets the theme that the reader chose before anything is drawn, and tells that scripts run.
(() => {
  document.documentElement.classList.add("scripted");
  try {
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* Storage may be forbidden: then the system's theme stays. */ }
})();
