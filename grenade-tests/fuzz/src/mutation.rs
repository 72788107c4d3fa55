//! One mutated input: a file of the corpus after a few edits that respect its form.

mod hostile;
mod text;
mod token;
mod wire;

use crate::corpus::Seed;
use crate::dice::Dice;

/// The longest input that edits make, in bytes, before the border's own limit.
const LONGEST: usize = 64 * 1024;

/// What an input looks like to those who write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
    /// Lines of comma-separated values.
    Csv,
    /// A request of HTTP/1.1: head, empty line, body.
    Http,
    /// A line that names a gRPC method, then one message of protobuf.
    Call,
}

/// A file of the corpus, edited between one and eight times; fewer times more often.
pub(crate) fn mutated(seeds: &[Seed], form: Form, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = dice.pick(seeds).bytes.clone();
    for _ in 0..8 {
        let other = &dice.pick(seeds).bytes;
        bytes = match form {
            Form::Call => wire::edited_call(&bytes, other, dice),
            _ => text::edited(bytes, other, form, dice),
        };
        bytes.truncate(LONGEST);
        if dice.once_in(2) {
            break;
        }
    }
    bytes
}
