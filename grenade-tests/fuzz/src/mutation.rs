//! One mutated input: a file of the corpus after a few edits that respect its form.

mod form;
mod hostile;
mod text;
mod token;
mod wire;

pub use form::Form;

use crate::corpus::Seed;
use crate::dice::Dice;
use form::LONGEST;

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
