// The rates of the last minute. The service sends what it has; then each status adds a second.

export const HISTORY_LENGTH = 60;

export class RateHistory {
  constructor() {
    this.decisions = emptySeries();
    this.rules = new Map();
  }

  /** Replaces everything by what the service has measured. */
  replace({ decisions, rules }) {
    this.decisions = { ...emptySeries(), ...decisions };
    this.rules = new Map(Object.entries(rules).map(([name, series]) => [name, { ...emptySeries(), ...series }]));
    // The first status after it has the newest values once more.
    this.includesNext = decisions.allowed.length > 0;
  }

  add(status) {
    if (this.includesNext || status.interval_ms === null) {
      this.includesNext = false;
      return;
    }
    push(this.decisions, status.decisions);
    for (const rule of status.rules) {
      if (!this.rules.has(rule.rule)) this.rules.set(rule.rule, emptySeries());
      push(this.rules.get(rule.rule), rule);
    }
  }

  all() {
    return this.decisions;
  }

  rule(name) {
    return this.rules.get(name) ?? emptySeries();
  }
}

const emptySeries = () => ({ allowed: [], refused: [], would_refuse: [] });

function push(series, figures) {
  for (const name of Object.keys(series)) {
    series[name].push(figures[`${name}_per_second`] ?? 0);
    if (series[name].length > HISTORY_LENGTH) series[name].shift();
  }
}
