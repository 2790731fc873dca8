/// The goals, and the measured values.
#[derive(Default)]
pub(crate) struct Goals {
    lines: Vec<String>,
}

impl Goals {
    /// Adds a goal with the measured value, and whether it is reached.
    pub(crate) fn add(&mut self, what: &str, goal: &str, measured: &str, holds: bool) {
        let verdict = if holds { "pass" } else { "fall short" };
        self.lines.push(format!("| {what} | {goal} | {measured} | {verdict} |"));
    }

    /// Prints every goal in the order in which they were measured.
    pub(crate) fn print(&self) {
        println!("\n### Goals of the shared store\n");
        println!("| | goal | measured | |");
        println!("| --- | --- | --- | --- |");
        self.lines.iter().for_each(|line| println!("{line}"));
    }
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
