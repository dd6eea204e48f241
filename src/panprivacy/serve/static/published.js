// The releases of one counter that the page has: consecutive ones, up to the last.

import { releases } from "./service.js";

const MOST = 500; // releases that the page has before anybody asks for earlier ones

export class Published {
  records = [];
  #all = false;

  constructor(name) {
    this.name = name;
  }

  get last() {
    return this.records.at(-1) ?? null;
  }

  /** How many there are that the page has not loaded. */
  get earlier() {
    return this.records.length ? this.records[0].id - 1 : 0;
  }

  /** Load what is new, given the last release that the service has. */
  async catchUp(last) {
    if (this.last?.id === last?.id && this.last?.at === last?.at) return;
    if (this.last !== null) {
      const [known, ...news] = await releases(this.name, this.last.id - 1);
      if (known?.at === this.last.at) {
        this.records.push(...news.filter((record) => record.id > this.last.id)); // some may have been pushed meanwhile
        return;
      }
      this.records = []; // another counter has this name now
    }
    if (last !== null) this.records = await releases(this.name, Math.max(last.id - MOST, 0));
  }

  async loadEarlier() {
    const all = await releases(this.name, 0);
    this.records = [...all.slice(0, this.earlier), ...this.records];
    this.#all = true;
  }

  /** Add a release that was pushed; false if it is not the one that comes next. */
  add(record) {
    if (record.id <= (this.last?.id ?? 0)) return true;
    if (record.id !== (this.last?.id ?? 0) + 1) return false;
    this.records.push(record);
    if (!this.#all && this.records.length > MOST) this.records.shift();
    return true;
  }
}

/** When a release is of: the end of its period, or when it was made. */
export const momentOf = (record) => new Date(record.period?.until ?? record.at);

/** One value of a release, of everybody or of a group; null if the release has none. */
export function valueOf(record, name, group = null) {
  const values = group === null ? record.values : record.groups.find((each) => String(each.group) === group)?.values;
  return values?.find((value) => value.name === name) ?? null;
}

/** Whether a release, or a group of it, is mostly noise. */
export function isNoise(record, group = null) {
  const of = group === null ? record : record.groups.find((each) => String(each.group) === group);
  return Boolean(of?.mostly_noise);
}
