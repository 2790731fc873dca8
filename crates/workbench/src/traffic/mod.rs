//! Generated traffic: patterns for one limit, and populations of clients whose behaviour is known.

mod pattern;
mod population;
mod random;

pub use pattern::{Arrival, MAX_GENERATED_LIMIT, TrafficPattern, drawn_arrivals};
pub use population::{ClientBehaviour, GeneratedRequest, Population};
pub use random::SeededRandom;
