//! The chart of a simulation: decisions over time, and the peaks of the clients.

use super::axis::Scale;
use super::drawing::{Area, BLUE, Drawing, VERMILION};
use super::panel::{Panel, Swatch, WIDTH};
use crate::simulate::{PeakBin, SimulationReport};

const PANEL_HEIGHT: f32 = 320.0;

/// The widest bar of a bin. A single one would fill the panel.
const BAR_WIDTH_MAX: f32 = 80.0;

/// Draws the allowed and refused requests over time, and the distribution of peaks over clients.
#[must_use]
pub fn simulation_drawing(report: &SimulationReport) -> Drawing {
    let description = format!(
        "{} requests allowed and {} refused over time, and the peak rates of {} clients",
        report.actions.allowed, report.actions.refused, report.clients
    );
    let mut drawing = Drawing::new(WIDTH, 2.0 * PANEL_HEIGHT, description);
    draw_decisions(&mut drawing, report);
    draw_peaks(&mut drawing, &report.peaks);
    drawing
}

fn draw_decisions(drawing: &mut Drawing, report: &SimulationReport) {
    let series = &report.over_time;
    let (length_ns, start_ns, end_ns) = (series.length_ns(), series.start_ns(), series.end_ns());
    let per_second = |count: u64| count as f64 * 1e9 / length_ns as f64;
    let most = report.intervals().map(|counts| per_second(counts.allowed + counts.refused)).fold(0.0, f64::max);
    let legend = [(Swatch::Solid(BLUE), "allowed"), (Swatch::Hatched(VERMILION), "refused")];
    let rows = (0.0, PANEL_HEIGHT);
    let panel = Panel::draw(drawing, rows, "Allowed and refused over time", "requests/s", Scale::linear(most), &legend);
    for (at, counts) in (0..).zip(report.intervals()) {
        // On whole pixels, so that neighbouring bars leave no seam.
        let x_at = |nth: u64| panel.x_of_time(start_ns + nth * length_ns, start_ns, end_ns).round();
        let (x, width) = (x_at(at), x_at(at + 1) - x_at(at));
        let allowed = panel.y(per_second(counts.allowed));
        let all = panel.y(per_second(counts.allowed + counts.refused));
        drawing.rectangle(Area { x, y: allowed, width, height: panel.bottom() - allowed }, BLUE);
        drawing.hatched(Area { x, y: all, width, height: allowed - all }, VERMILION);
    }
    panel.draw_times(drawing, start_ns, end_ns);
}

fn draw_peaks(drawing: &mut Drawing, peaks: &[PeakBin]) {
    let most = peaks.iter().map(|bin| bin.never_refused.max(bin.refused)).max().unwrap_or(0);
    let legend = [(Swatch::Solid(BLUE), "never refused"), (Swatch::Hatched(VERMILION), "refused at least once")];
    let rows = (PANEL_HEIGHT, PANEL_HEIGHT);
    let scale = Scale::logarithmic(most as f64);
    let panel = Panel::draw(drawing, rows, "Clients by their peak", "clients", scale, &legend);
    let labels: Vec<String> = peaks.iter().map(bin_label).collect();
    let places = panel.draw_categories(drawing, &labels, "most requests in a minute");
    for (bin, (middle, width)) in peaks.iter().zip(places) {
        let bar = (width * 0.36).min(BAR_WIDTH_MAX);
        let area = |x: f32, clients: u64| {
            let y = panel.y(clients as f64);
            Area { x, y, width: bar, height: if clients > 0 { panel.bottom() - y } else { 0.0 } }
        };
        drawing.rectangle(area(middle - bar - 1.0, bin.never_refused), BLUE);
        drawing.hatched(area(middle + 1.0, bin.refused), VERMILION);
    }
}

/// Returns the range of a bin: `4-7`, or from 1,024 on, where digits would not fit, in units of 1,024: `2k-4k`.
fn bin_label(bin: &PeakBin) -> String {
    let thousands = |number: u64| match number >> 10 {
        thousands if thousands < 1_024 => format!("{thousands}k"),
        thousands => format!("{}M", thousands >> 10),
    };
    match (bin.from, bin.to) {
        (from, to) if from == to => from.to_string(),
        (from, to) if to < 1_024 => format!("{from}-{to}"),
        (from, to) => format!("{}-{}", thousands(from), thousands(to + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_bins_are_their_ranges() {
        let label = |from: u64| bin_label(&PeakBin { from, to: 2 * from - 1, never_refused: 0, refused: 0 });
        assert_eq!(
            [1, 4, 512, 1 << 10, 1 << 14, 1 << 19].map(label),
            ["1", "4-7", "512-1023", "1k-2k", "16k-32k", "512k-1M"]
        );
    }
}
