// Times in the reader's zone.

const two = (number) => String(number).padStart(2, "0");

export const date = (instant) =>
  `${instant.getFullYear()}-${two(instant.getMonth() + 1)}-${two(instant.getDate())}`;

export const timeOfDay = (instant) =>
  `${two(instant.getHours())}:${two(instant.getMinutes())}:${two(instant.getSeconds())}`;

// The date is left out on the day of `now`.
export const shown = (instant, now = new Date()) =>
  date(instant) === date(now) ? timeOfDay(instant) : `${date(instant)} ${timeOfDay(instant)}`;

export const zone = () => {
  const minutes = -new Date().getTimezoneOffset();
  const offset = `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return minutes === 0 ? name || "UTC" : name ? `${name} (${offset})` : offset;
};

// Without the date on the day of `now`.
export const localize = (root, now = new Date()) => {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const instant = new Date(element.dateTime);
    if (Number.isNaN(instant.getTime())) continue;
    // In an explanation the date is left out on the day of the decision, as the command does.
    const near = element.closest("[data-near]")?.dataset.near;
    element.textContent = shown(instant, near === undefined ? now : new Date(near));
    element.title = `${date(instant)} ${timeOfDay(instant)} ${zone()}`;
  }
};

// RFC 3339 in UTC, to the millisecond, as the addresses have it.
export const exact = (seconds) => new Date(Math.ceil(seconds * 1000)).toISOString().replace(".000Z", "Z");
