//! The result of `compare` as text.

use tollgate_workbench::compare::{AlgorithmResult, Comparison};
use tollgate_workbench::plot::comparison_sketch;
use tollgate_workbench::{period_words, rate_text};

use crate::colours::Colours;
use crate::workbench::table::{count, duration, grouped, table};

pub(super) fn page(comparison: &Comparison, traffic: &str, with_sketch: bool) -> String {
    let (requests, clients) = (count(comparison.requests, "request"), count(comparison.clients, "client"));
    let period = period_words(comparison.rate.period_ns());
    let heading = format!("{} for each client: {requests} of {clients}, {traffic}", rate_text(&comparison.rate));
    let in_window = format!("in any {period}");
    let columns =
        ["algorithm", "admitted", "refused", &in_window, "in any second", "wrong", "longest wait", "bytes/client"];
    let mut rows = vec![columns.map(str::to_owned).to_vec()];
    rows.extend(comparison.algorithms.iter().map(|result| row(result, comparison.requests)));
    let mut page = format!("{}\n\n{}\n{}", Colours::of_stdout().heading(&heading), table(&rows, 1), notes(&in_window));
    if with_sketch {
        page.push_str(&format!("\n{}", comparison_sketch(comparison)));
    }
    page
}

fn row(result: &AlgorithmResult, requests: u64) -> Vec<String> {
    vec![
        result.algorithm.to_owned(),
        grouped(result.admitted),
        grouped(result.refused),
        grouped(result.max_in_window),
        grouped(result.max_in_second),
        wrong(result.wrong, requests),
        duration(result.longest_wait_ns()),
        grouped(result.bytes_per_client),
    ]
}

/// A share in percent with three decimals, in which the error of a counter is measured.
fn wrong(wrong: u64, requests: u64) -> String {
    let per_100_000 = (u128::from(wrong) * 100_000).checked_div(u128::from(requests)).unwrap_or(0);
    match per_100_000 {
        0 if wrong > 0 => "< 0.001 %".to_owned(),
        share => format!("{}.{:03} %", share / 1_000, share % 1_000),
    }
}

fn notes(in_window: &str) -> String {
    format!(
        "  {in_window}, in any second: the most requests of one client that pass in any such span\n  \
         wrong: requests that sliding-window-log decides otherwise; it counts exactly\n  \
         longest wait: of a delayed request, or until a refused one would pass\n"
    )
}

#[cfg(test)]
mod tests {
    use super::wrong;

    #[test]
    fn small_errors_are_not_shown_as_none() {
        assert_eq!((wrong(0, 10).as_str(), wrong(1, 1_000_000).as_str()), ("0.000 %", "< 0.001 %"));
        assert_eq!((wrong(3, 100_000).as_str(), wrong(100, 200).as_str()), ("0.003 %", "50.000 %"));
        assert_eq!(wrong(0, 0), "0.000 %");
    }
}
