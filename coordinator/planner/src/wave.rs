//! Who is exposed together: groups by the spec's strategy, of the fleet as it was when the roll began; membership
//! stable by hash, spread over failure domains.
//!
//! Wave size and concurrency are different things: how many are out at once is the business of `gate::budget::capacity`.

mod draw;
mod sizes;

pub use draw::{Drawn, draw, pages, redraw};
pub use sizes::sizes;
