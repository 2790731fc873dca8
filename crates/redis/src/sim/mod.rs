//! A model of the world.
