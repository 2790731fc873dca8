//! The chart of a comparison: admitted requests over time, and the most in any window.

use super::axis::{Scale, number_label};
use super::drawing::{Anchor, Area, BLUE, Colour, Drawing, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION};
use super::panel::{Panel, Swatch, WIDTH};
use crate::compare::{ALGORITHM_COUNT, Comparison, REQUESTED};

const PANEL_HEIGHT: f32 = 340.0;

/// The colour and the dashes of each algorithm: each is distinguished by either.
const STYLES: [(Colour, &[f32]); ALGORITHM_COUNT] = [
    (BLUE, &[]),
    (SKY, &[2.0, 4.0]),
    (GREEN, &[12.0, 4.0]),
    (VERMILION, &[8.0, 3.0, 2.0, 3.0]),
    (INK, &[4.0, 3.0]),
    (PURPLE, &[16.0, 4.0, 4.0, 4.0]),
];

const REQUESTED_DASH: &[f32] = &[1.0, 3.0];

/// Draws the requests that each algorithm admitted over time, and the most that one client got in any window.
#[must_use]
pub fn comparison_drawing(comparison: &Comparison) -> Drawing {
    let limit = limit_text(comparison);
    let description = format!("{limit} under {ALGORITHM_COUNT} algorithms on {} requests", comparison.requests);
    let mut drawing = Drawing::new(WIDTH, 2.0 * PANEL_HEIGHT + 26.0, description);
    draw_admitted(&mut drawing, comparison, &limit);
    draw_most(&mut drawing, comparison, &limit);
    drawing
}

fn limit_text(comparison: &Comparison) -> String {
    crate::rate_text::rate_text(&comparison.rate)
}

fn draw_admitted(drawing: &mut Drawing, comparison: &Comparison, limit: &str) {
    let series = &comparison.over_time;
    let (length_ns, start_ns, end_ns) = (series.length_ns(), series.start_ns(), series.end_ns());
    let names: Vec<String> = comparison.algorithms.iter().map(|result| short(result.algorithm)).collect();
    let mut legend: Vec<(Swatch, &str)> = vec![(Swatch::Line(GREY, REQUESTED_DASH), "requests")];
    legend.extend(STYLES.iter().zip(&names).map(|((colour, dash), name)| (Swatch::Line(*colour, dash), &**name)));
    let title = format!("{limit}: requests and what passes, added up");
    let scale = Scale::linear(comparison.requests as f64);
    let panel = Panel::draw(drawing, (0.0, PANEL_HEIGHT), &title, "", scale, &legend);
    drawing.text((24.0, 48.0), "requests", Anchor::Start, GREY);
    let requested = (REQUESTED, (GREY, REQUESTED_DASH));
    for (kind, (colour, dash)) in [requested].into_iter().chain(STYLES.into_iter().enumerate()) {
        let mut sum = 0;
        let mut points = vec![(panel.area.x, panel.y(0.0))];
        for (at, counts) in (1..).zip(series.counts()) {
            sum += counts[kind];
            points.push((panel.x_of_time(start_ns + at * length_ns, start_ns, end_ns), panel.y(sum as f64)));
        }
        drawing.line(points, colour, 2.2, dash);
    }
    panel.draw_times(drawing, start_ns, end_ns);
}

fn draw_most(drawing: &mut Drawing, comparison: &Comparison, limit: &str) {
    let results = &comparison.algorithms;
    let nominal = comparison.rate.count();
    let most = results.iter().map(|result| result.max_in_window).max().unwrap_or(0).max(nominal);
    let title = format!("{limit}: the most of one client that pass in any {}", window_text(comparison));
    let legend = [
        (Swatch::Solid(BLUE), "within the limit"),
        (Swatch::Hatched(ORANGE), "beyond it"),
        (Swatch::Line(INK, &[6.0, 4.0]), "the limit"),
    ];
    let rows = (PANEL_HEIGHT + 26.0, PANEL_HEIGHT);
    let panel = Panel::draw(drawing, rows, &title, "requests", Scale::linear(most as f64 * 1.08), &legend);
    let labels: Vec<String> = results.iter().map(|result| short(result.algorithm)).collect();
    let places = panel.draw_categories(drawing, &labels, "algorithm");
    for (result, (middle, width)) in results.iter().zip(places) {
        let (x, bar) = (middle - width * 0.3, width * 0.6);
        let within = panel.y(result.max_in_window.min(nominal) as f64);
        let top = panel.y(result.max_in_window as f64);
        drawing.rectangle(Area { x, y: within, width: bar, height: panel.bottom() - within }, BLUE);
        drawing.hatched(Area { x, y: top, width: bar, height: within - top }, ORANGE);
        drawing.text((middle, top - 6.0), number_label(result.max_in_window as f64), Anchor::Middle, INK);
    }
    let y = panel.y(nominal as f64);
    drawing.line(vec![(panel.area.x, y), (panel.area.x + panel.area.width, y)], INK, 1.5, &[6.0, 4.0]);
}

fn window_text(comparison: &Comparison) -> String {
    crate::rate_text::period_words(comparison.rate.period_ns())
}

/// The name of an algorithm in a chart, where there is less space.
fn short(algorithm: &str) -> String {
    algorithm.replace("sliding-window", "sliding").replace("leaky-bucket-queue", "leaky-queue")
}
