//! `make demo`, as a newcomer runs it: the built program, judged by what it leaves behind.

mod arguments;
mod interrupted;
mod real_demo;
mod rolled_back;
mod running;
mod whole;
