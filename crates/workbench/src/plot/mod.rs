//! Charts of results, as SVG and PNG, and as text for terminals.
#![expect(clippy::float_arithmetic, reason = "coordinates of drawings, which decide nothing")]

mod axis;
mod calibration_plot;
mod comparison_plot;
mod drawing;
mod panel;
mod png;
mod simulation_plot;
mod sketch;
mod svg;

pub use calibration_plot::calibration_drawing;
pub use comparison_plot::comparison_drawing;
pub use drawing::Drawing;
pub use simulation_plot::simulation_drawing;
pub use sketch::{comparison_sketch, simulation_sketch};
