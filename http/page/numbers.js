// Answers taken apart, and numbers as people read them. What a process said may be anything: what
// has another type than it should have is not there.

export const number = (object, name) => {
  const value = object?.[name];
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : 0;
};
export const text = (object, name) => typeof object?.[name] === 'string' ? object[name] : '';
export const isObject = it => typeof it === 'object' && it !== null && !Array.isArray(it);
export const objects = (object, name) =>
  Array.isArray(object?.[name]) ? object[name].filter(isObject) : [];
export const sum = object => Object.keys(isObject(object) ? object : {}).reduce(
  (so_far, name) => so_far + number(object, name), 0);

// --- histograms (base/histogram.h): buckets are a sixteenth of what they hold wide at most ---

const PART = 16;

export function bucketOf(value) {
  if (value < PART) return Math.floor(value);
  const shift = Math.floor(Math.log2(value)) - 4;
  return shift * PART + Math.floor(value / 2 ** shift);
}

const bucketFirst = bucket => {
  const shift = Math.max(0, Math.floor(bucket / PART) - 1);
  return (bucket - shift * PART) * 2 ** shift;
};

// {bucket: count} of all histograms given, as `weft stat` and `weft status` tell them.
export function counts(histograms) {
  const found = new Map();
  for (const histogram of histograms) {
    for (const bucket of Array.isArray(histogram?.buckets) ? histogram.buckets : []) {
      if (Array.isArray(bucket) && Number.isFinite(bucket[0]) && Number.isFinite(bucket[1])) {
        const of = bucketOf(Math.max(0, bucket[0]));
        found.set(of, (found.get(of) ?? 0) + bucket[1]);
      }
    }
  }
  return found;
}

// What came since.
export function since(before, now) {
  const found = new Map();
  for (const [bucket, count] of now) {
    const more = count - (before.get(bucket) ?? 0);
    if (more > 0) found.set(bucket, more);
  }
  return found;
}

// The middle of the bucket that so many of a thousand do not exceed; null: nothing came.
export function percentile(found, permille) {
  const total = [...found.values()].reduce((a, b) => a + b, 0);
  let left = Math.ceil(total * permille / 1000);
  for (const bucket of [...found.keys()].sort((a, b) => a - b)) {
    left -= found.get(bucket);
    if (left <= 0) return (bucketFirst(bucket) + bucketFirst(bucket + 1) - 1) / 2;
  }
  return null;
}

// [[log2, count]], without gaps: what the eye takes in.
export function powers(found) {
  const by_power = new Map();
  for (const [bucket, count] of found) {
    const power = Math.floor(Math.log2(Math.max(1, bucketFirst(bucket))));
    by_power.set(power, (by_power.get(power) ?? 0) + count);
  }
  const all = [...by_power.keys()];
  const columns = [];
  for (let power = Math.min(...all); power <= Math.max(...all); power++) {
    columns.push([power, by_power.get(power) ?? 0]);
  }
  return columns;
}

// --- as people read them ---

function scaled(value, units, step) {
  let unit = 0;
  while (value >= step && unit < units.length - 1) { value /= step; unit++; }
  const digits = value >= 100 || unit === 0 && Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits) + units[unit];
}

export const octets = value => scaled(value, [' B', ' KiB', ' MiB', ' GiB', ' TiB', ' PiB'], 1024);
export const many = value => scaled(value, ['', ' k', ' M', ' G', ' T'], 1000);
export const duration = ns =>
  ns === null ? '–' : scaled(ns, [' ns', ' µs', ' ms', ' s'], 1000);
export const perSecond = (format, value) => value === null ? '–' : `${format(value)}/s`;
