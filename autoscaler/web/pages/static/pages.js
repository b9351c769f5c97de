// What all pages have: local times, the theme, and quiet updates that can be stopped.

import { localize, shown, zone } from "./times.js";

const remembered = {
  get(key) { try { return localStorage.getItem(key); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(key, value); } catch { /* It is forgotten then. */ } },
};

document.getElementById("zone").textContent = zone();
localize(document);

// -- the theme -------------------------------------------------------------------------------

const THEMES = ["system", "light", "dark"];
const themeButton = document.getElementById("theme");

const showTheme = () => {
  themeButton.textContent = `Theme: ${document.documentElement.dataset.theme ?? "system"}`;
};

themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  remembered.set("theme", next);
  showTheme();
  document.dispatchEvent(new Event("themechange"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.dispatchEvent(new Event("themechange"));
});
showTheme();
themeButton.hidden = false;

// -- quiet updates ---------------------------------------------------------------------------

const { refresh: period, reload } = document.body.dataset;
const liveButton = document.getElementById("refresh");
const announcer = document.getElementById("announcer");
const lost = document.createElement("p");
lost.className = "notice bad";
let live = remembered.get("live") !== "no";
let timer = 0;
let updated = new Date();

// Nothing changes below a pressed button: a click is lost whose place was replaced meanwhile.
const RELEASE_MILLISECONDS = 50;
let isPressed = false;
addEventListener("pointerdown", (event) => { isPressed = event.button === 0; }, true);
for (const end of ["pointerup", "pointercancel", "contextmenu", "blur"]) {
  addEventListener(end, () => setTimeout(() => { isPressed = false; }, RELEASE_MILLISECONDS), true);
}

export const released = async () => {
  while (isPressed) await new Promise((done) => { setTimeout(done, RELEASE_MILLISECONDS); });
};

const isInUse = (part) => {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(part, true);
};

const focusAgain = (part, before) => {
  const same = before.id
    ? part.querySelector(`#${CSS.escape(before.id)}`)
    : [...part.querySelectorAll(before.localName)].find(
        (link) => link.getAttribute("href") === before.getAttribute("href")
          && link.getAttribute("aria-label") === before.getAttribute("aria-label"));
  (same ?? document.getElementById("main")).focus({ preventScroll: true });
};

const replace = (old, fresh) => {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const said = old.querySelector("[data-announce]")?.dataset.announce;
  const news = fresh.querySelector("[data-announce]")?.dataset.announce;
  const scrolled = [...old.querySelectorAll("pre")].map((block) => block.scrollTop);
  old.replaceWith(document.adoptNode(fresh));
  [...fresh.querySelectorAll("pre")].forEach((block, index) => { block.scrollTop = scrolled[index] ?? 0; });
  if (focused !== null) focusAgain(fresh, focused);
  if (news !== undefined && news !== said) announcer.textContent = news;
};

// Whether a part waits since text in it is selected; the page says so, and its time stays.
let waits = false;

const showLive = () => {
  liveButton.setAttribute("aria-pressed", String(live));
  liveButton.textContent = live && waits ? "Live, waits for the selected text" : "Live";
};

const update = async () => {
  const address = location.href;
  try {
    const response = await fetch(address, { headers: { Accept: "text/html" } });
    if (!response.ok) throw new Error(`it answers ${response.status}`);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    await released();
    if (address !== location.href) return;
    lost.remove();
    updated = new Date();
    const changed = [...document.querySelectorAll("[data-live]")]
      .map((old) => [old, page.getElementById(old.id)])
      .filter(([old, fresh]) => {
        if (fresh !== null) localize(fresh);
        return fresh !== null && old.outerHTML !== fresh.outerHTML;
      });
    waits = changed.some(([old]) => isInUse(old));
    showLive();
    for (const [old, fresh] of changed) {
      if (!isInUse(old) && !(waits && old.id === "shown")) replace(old, fresh);
    }
    if (!waits) document.title = page.title;
    document.dispatchEvent(new CustomEvent("updated", { detail: page }));
  } catch {
    lost.textContent = `The daemon does not answer; shown is what it said at ${shown(updated)}.`;
    if (!lost.isConnected) document.getElementById("notices").append(lost);
  }
};

const plan = () => {
  clearTimeout(timer);
  if (live && !document.hidden) timer = setTimeout(() => update().then(plan), Number(period) * 1000);
};

// Asks for the address as it is now.
export const refresh = () => update().then(plan);

document.addEventListener("selectionchange", () => {
  if (!waits || !live || [...document.querySelectorAll("[data-live]")].some(isInUse)) return;
  waits = false;
  refresh();
});

if (period) {
  liveButton.hidden = false;
  showLive();
  liveButton.addEventListener("click", () => {
    live = !live;
    remembered.set("live", live ? "yes" : "no");
    showLive();
    if (live) refresh();
    else plan();
  });
  document.addEventListener("visibilitychange", () => {
    if (live && !document.hidden) refresh();
  });
  plan();
}

if (reload) setTimeout(() => location.reload(), Number(reload) * 1000);
