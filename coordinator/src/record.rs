//! Record: what people are told of a turn. Events are part of the commits that they tell of; here are only how
//! long they are kept, the reasons for waiting.

pub mod retention;
pub mod strays;
pub mod waiting;
