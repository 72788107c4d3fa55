//! Scenarios of compute releases: what goes out, what waits and why, and what never happens.

mod canary;
mod fixture;
mod floors;
mod going_out;
mod history;
mod hooks;
mod images;
mod kept;
mod properties;
mod restored;
mod returning;
mod storage;
