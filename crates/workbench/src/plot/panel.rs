//! A panel of a chart: its frame, axes, grid and legend.

use super::axis::{Scale, number_label, time_ticks};
use super::drawing::{Anchor, Area, Colour, Drawing, GREY, GRID, INK};

/// The width of all charts.
pub(super) const WIDTH: f32 = 960.0;

/// The space of a panel around its plotting area.
const LEFT: f32 = 76.0;
const RIGHT: f32 = 24.0;
const TOP: f32 = 62.0;
const BOTTOM: f32 = 48.0;

/// The width of a letter of labels.
const LETTER: f32 = 6.6;

/// The plotting area of a panel with a vertical scale.
pub(super) struct Panel {
    pub(super) area: Area,
    pub(super) vertical: Scale,
}

/// How a legend shows a kind.
#[derive(Clone, Copy)]
pub(super) enum Swatch {
    Solid(Colour),
    Hatched(Colour),
    Line(Colour, &'static [f32]),
}

impl Panel {
    /// Draws a panel in the rows from `top`, `height` high: title, vertical axis with its unit, grid and legend.
    pub(super) fn draw(
        drawing: &mut Drawing,
        (top, height): (f32, f32),
        title: &str,
        unit: &str,
        vertical: Scale,
        legend: &[(Swatch, &str)],
    ) -> Panel {
        let area = Area { x: LEFT, y: top + TOP, width: WIDTH - LEFT - RIGHT, height: height - TOP - BOTTOM };
        drawing.title((24.0, top + 24.0), title);
        drawing.text((24.0, top + TOP - 14.0), unit, Anchor::Start, GREY);
        draw_legend(drawing, top + TOP - 14.0, legend);
        let panel = Panel { area, vertical };
        for value in vertical.ticks() {
            let y = panel.y(value);
            drawing.line(vec![(area.x, y), (area.x + area.width, y)], GRID, 1.0, &[]);
            drawing.text((area.x - 8.0, y + 4.0), number_label(value), Anchor::End, INK);
        }
        panel
    }

    /// Draws the horizontal axis of a span of time.
    pub(super) fn draw_times(&self, drawing: &mut Drawing, from_ns: u64, to_ns: u64) {
        let (ticks, unit) = time_ticks(from_ns, to_ns);
        for (time_ns, label) in ticks {
            let x = self.x_of_time(time_ns, from_ns, to_ns);
            self.draw_tick(drawing, x);
            // The last label is moved to fit into the drawing.
            let half = label.chars().count() as f32 * LETTER / 2.0;
            drawing.text((x.min(WIDTH - half - 2.0), self.bottom() + 18.0), label, Anchor::Middle, INK);
        }
        self.draw_base(drawing);
        self.draw_unit(drawing, unit);
    }

    /// Draws the horizontal axis of categories, and returns the middle and the width of each.
    pub(super) fn draw_categories(&self, drawing: &mut Drawing, labels: &[String], unit: &str) -> Vec<(f32, f32)> {
        let width = self.area.width / labels.len().max(1) as f32;
        // Labels that would touch are left out.
        let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) as f32 * LETTER;
        let shown = ((longest + LETTER) / width).ceil().max(1.0) as usize;
        let middles = (0..labels.len()).map(|at| self.area.x + (at as f32 + 0.5) * width);
        for ((at, label), x) in labels.iter().enumerate().zip(middles.clone()) {
            if at % shown == 0 {
                drawing.text((x, self.bottom() + 18.0), label, Anchor::Middle, INK);
            }
        }
        self.draw_base(drawing);
        self.draw_unit(drawing, unit);
        middles.map(|x| (x, width)).collect()
    }

    /// Returns where a value is on the vertical axis.
    pub(super) fn y(&self, value: f64) -> f32 {
        self.bottom() - self.vertical.position(value) * self.area.height
    }

    /// Returns where a time is on the horizontal axis.
    pub(super) fn x_of_time(&self, time_ns: u64, from_ns: u64, to_ns: u64) -> f32 {
        let share = time_ns.saturating_sub(from_ns) as f64 / to_ns.saturating_sub(from_ns).max(1) as f64;
        self.area.x + share.min(1.0) as f32 * self.area.width
    }

    /// Returns the bottom of the plotting area.
    pub(super) fn bottom(&self) -> f32 {
        self.area.y + self.area.height
    }

    fn draw_tick(&self, drawing: &mut Drawing, x: f32) {
        drawing.line(vec![(x, self.bottom()), (x, self.bottom() + 5.0)], INK, 1.0, &[]);
    }

    fn draw_base(&self, drawing: &mut Drawing) {
        let Area { x, width, .. } = self.area;
        drawing.line(vec![(x, self.bottom()), (x + width, self.bottom())], INK, 1.0, &[]);
    }

    fn draw_unit(&self, drawing: &mut Drawing, unit: &str) {
        let x = self.area.x + self.area.width / 2.0;
        drawing.text((x, self.bottom() + 36.0), unit, Anchor::Middle, GREY);
    }
}

/// Draws a legend that ends at the right border.
fn draw_legend(drawing: &mut Drawing, baseline: f32, legend: &[(Swatch, &str)]) {
    const SWATCH_WIDTH: f32 = 22.0;
    let entry = |label: &str| SWATCH_WIDTH + 6.0 + label.chars().count() as f32 * LETTER + 14.0;
    let mut x = WIDTH - RIGHT - legend.iter().map(|(_, label)| entry(label)).sum::<f32>() + 14.0;
    for (swatch, label) in legend {
        let area = Area { x, y: baseline - 9.0, width: SWATCH_WIDTH, height: 11.0 };
        match swatch {
            Swatch::Solid(colour) => drawing.rectangle(area, *colour),
            Swatch::Hatched(colour) => drawing.hatched(area, *colour),
            Swatch::Line(colour, dash) => {
                let y = baseline - 4.0;
                drawing.line(vec![(x, y), (x + SWATCH_WIDTH, y)], *colour, 2.2, dash);
            }
        }
        drawing.text((x + SWATCH_WIDTH + 6.0, baseline), *label, Anchor::Start, INK);
        x += entry(label);
    }
}
