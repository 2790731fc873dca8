//! The chart of a calibration: what clients needed, and the proposed limits.

use super::axis::Scale;
use super::drawing::{Anchor, Area, BLUE, Drawing, GREY, INK, VERMILION};
use super::panel::{Panel, Swatch, WIDTH};
use crate::calibrate::{Calibration, LimitProposal};
use crate::rate_text::rate_text;

const HEIGHT: f32 = 380.0;

const LIMIT_DASH: &[f32] = &[6.0, 4.0];

/// Draws for each proposal the bursts that the clients needed at the proposed rate, and the proposed burst.
#[must_use]
pub fn calibration_drawing(calibration: &Calibration) -> Drawing {
    let description = format!("the bursts that clients needed under {} limits", calibration.proposals.len());
    let mut drawing = Drawing::new(WIDTH, HEIGHT, description);
    let most = calibration.proposals.iter().map(largest).max().unwrap_or(1);
    let legend = [
        (Swatch::Solid(BLUE), "half to 99.9 % of the clients"),
        (Swatch::Line(INK, &[]), "up to all"),
        (Swatch::Line(VERMILION, LIMIT_DASH), "proposed burst"),
    ];
    let title = "The smallest bucket that lets a client through";
    let scale = Scale::logarithmic(most as f64);
    let panel = Panel::draw(&mut drawing, (0.0, HEIGHT), title, "tokens", scale, &legend);
    let label = |proposal: &LimitProposal| format!("{} per {}", proposal.class.name(), proposal.key);
    let labels: Vec<String> = calibration.proposals.iter().map(label).collect();
    let places = panel.draw_categories(&mut drawing, &labels, "rule");
    for (proposal, (middle, width)) in calibration.proposals.iter().zip(places) {
        let burst = &proposal.evidence.burst;
        let (top, bottom) = (panel.y(burst.p999 as f64), panel.y(burst.p50 as f64));
        let bar = (width * 0.3).min(60.0);
        let area = Area { x: middle - bar / 2.0, y: top, width: bar, height: (bottom - top).max(2.0) };
        drawing.line(vec![(middle, panel.y(burst.max as f64)), (middle, bottom)], INK, 2.0, &[]);
        drawing.rectangle(area, BLUE);
        let y = panel.y(proposed_burst(proposal) as f64);
        drawing.line(vec![(middle - bar, y), (middle + bar, y)], VERMILION, 2.2, LIMIT_DASH);
        drawing.text((middle, y - 6.0), rate_text(&proposal.rate), Anchor::Middle, INK);
        let clients = format!("{} clients", proposal.evidence.clients);
        drawing.text((middle, panel.bottom() - 6.0), clients, Anchor::Middle, GREY);
    }
    drawing
}

fn proposed_burst(proposal: &LimitProposal) -> u64 {
    proposal.rate.burst_or_default()
}

fn largest(proposal: &LimitProposal) -> u64 {
    proposal.evidence.burst.max.max(proposed_burst(proposal))
}
