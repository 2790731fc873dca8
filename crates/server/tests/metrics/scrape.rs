//! A parsed scrape of the metrics.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Scrape {
    /// The value of each series, by its name and labels as written.
    series: BTreeMap<String, f64>,
    /// The metrics with a `# TYPE` line, with or without series.
    typed: BTreeSet<String>,
}

impl Scrape {
    pub(crate) fn parse(text: &str) -> Scrape {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let read = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        };
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        Scrape { series: samples.map(read).collect(), typed: types.map(str::to_owned).collect() }
    }

    /// Returns the names of all series, and of metrics without series.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let series = self.series.keys().map(|series| series.split('{').next().unwrap());
        series.chain(self.typed.iter().map(String::as_str)).map(str::to_owned).collect()
    }

    /// Returns the value of a series. Panics if there is none.
    #[track_caller]
    pub(crate) fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no series {series} in {:#?}", self.series))
    }

    /// Returns the value of a series as an integer.
    #[track_caller]
    pub(crate) fn count(&self, series: &str) -> u64 {
        self.value(series) as u64
    }

    /// Returns the number of decisions of a front end since `before`, by rule and outcome.
    pub(crate) fn decided_since(&self, before: &Scrape, front_end: &str) -> BTreeMap<(String, String), u64> {
        let mut decided = BTreeMap::new();
        for (series, value) in &self.series {
            let Some(labels) = series.strip_prefix("tollgate_decisions_total{") else { continue };
            let label = |name: &str| {
                let from = labels.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
                labels[from..].split('"').next().unwrap().to_owned()
            };
            let growth = *value as u64 - before.series.get(series).map_or(0, |value| *value as u64);
            if growth > 0 && label("frontend") == front_end {
                decided.insert((label("rule"), label("outcome")), growth);
            }
        }
        decided
    }
}
