//! Links between pages.

mod anchors;
mod index;
