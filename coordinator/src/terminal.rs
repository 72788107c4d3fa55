//! Text on a terminal: its colour, its width, and a picture that is drawn over itself. The product's own commands and those
//! of its demo draw with it.

pub mod colour;
pub mod paint;
pub mod screen;
