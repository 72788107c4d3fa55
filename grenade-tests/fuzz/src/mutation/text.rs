//! Edits of texts.

use super::form::{Form, LONGEST};
use super::hostile;
use super::token::{Kind, Token, tokens};
use crate::dice::Dice;
use std::ops::Range;

/// The text after one edit; `other` is a file of the same corpus.
pub(super) fn edited(mut text: Vec<u8>, other: &[u8], form: Form, dice: &mut Dice) -> Vec<u8> {
    if text.is_empty() {
        return if dice.once_in(2) { other.to_vec() } else { hostile::word(form, dice) };
    }
    let found = tokens(&text);
    match dice.below(32) {
        0 => {
            let at = dice.below(text.len());
            text[at] ^= 1 << dice.below(8);
        }
        1 => {
            let at = dice.below(text.len());
            text[at] = *dice.pick(b"\0\x01\t\n\r\x1b\x7f\x80\xff\"'\\{}[]:,=#&*-$;/");
        }
        2..=4 => drop(text.drain(run(&found, 8, dice))),
        5 | 6 => {
            let run = run(&found, 24, dice);
            let piece = text[run.clone()].to_vec();
            insert(&mut text, run.end, &piece);
        }
        7 => {
            let from = tokens(other);
            let piece = if from.is_empty() { &[][..] } else { &other[run(&from, 40, dice)] };
            insert(&mut text, start_of_one(&found, dice), piece);
        }
        8 => {
            text.truncate(start_of_one(&found, dice));
            text.extend_from_slice(&other[dice.below(other.len())..]);
        }
        9..=11 => insert(&mut text, start_of_one(&found, dice), &hostile::word(form, dice)),
        12..=19 => replace_one(&mut text, &found, form, dice),
        20 | 21 => repeat_line(&mut text, dice),
        22 | 23 => nest(&mut text, &found, form, dice),
        24..=26 => add_field(&mut text, form, dice),
        27 => text.truncate(dice.below(text.len())),
        28 => swap(&mut text, &found, dice),
        29 => insert(&mut text, start_of_one(&found, dice), &hostile::not_utf8(dice)),
        30 => insert(&mut text, start_of_one(&found, dice), &hostile::long(dice)),
        _ => repeat_often(&mut text, &found, dice),
    }
    text
}

fn insert(text: &mut Vec<u8>, at: usize, piece: &[u8]) {
    text.splice(at..at, piece.iter().copied());
}

fn start_of_one(found: &[Token], dice: &mut Dice) -> usize {
    dice.pick(found).at.start
}

/// The bytes of up to `most` tokens that follow one another.
fn run(found: &[Token], most: usize, dice: &mut Dice) -> Range<usize> {
    let first = dice.below(found.len());
    let last = (first + dice.below(most)).min(found.len() - 1);
    found[first].at.start..found[last].at.end
}

/// Another word in the place of one, mostly of its own kind.
fn replace_one(text: &mut Vec<u8>, found: &[Token], form: Form, dice: &mut Dice) {
    let values = |token: &&Token| !matches!(token.kind, Kind::Blank | Kind::Mark);
    let count = found.iter().filter(values).count();
    let Some(token) = found.iter().filter(values).nth(dice.below(count)) else { return };
    let by = match token.kind {
        _ if dice.once_in(6) => hostile::word(form, dice),
        Kind::Number => hostile::number(dice),
        Kind::Quoted => {
            let quote = text[token.at.start];
            let mut quoted = vec![quote];
            quoted.extend(if dice.once_in(2) { hostile::number(dice) } else { hostile::text(dice) });
            quoted.push(quote);
            quoted
        }
        _ => hostile::text(dice),
    };
    text.splice(token.at.clone(), by);
}

/// The line at a random place twice: a field that is there twice in YAML and TOML, a row in a table.
fn repeat_line(text: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(text.len());
    let start = text[..at].iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
    let end = text[at..].iter().position(|b| *b == b'\n').map_or(text.len(), |newline| at + newline + 1);
    let mut line = text[start..end].to_vec();
    if !line.ends_with(b"\n") {
        line.insert(0, b'\n');
    }
    insert(text, end, &line);
}

/// A token inside many brackets, or many levels of the form.
fn nest(text: &mut Vec<u8>, found: &[Token], form: Form, dice: &mut Dice) {
    const DEPTHS: [usize; 9] = [1, 2, 8, 64, 127, 128, 129, 500, 5_000];
    let depth = *dice.pick(&DEPTHS);
    let levels: &[(&str, &str)] = match form {
        Form::Json | Form::Http | Form::Call => &[("[", "]"), ("{\"a\":", "}"), ("[", ""), ("{\"a\":[", "")],
        Form::Yaml => {
            &[("[", "]"), ("{a: ", "}"), ("- ", ""), ("[", ""), ("? ", ""), ("!x ", ""), ("[&a ", "]")]
        }
        Form::Toml => &[("[", "]"), ("{a=", "}"), ("[", ""), ("a.", ""), ("{a.a=", "")],
        Form::Csv => &[("\"", "\""), ("# ", ""), (",", "")],
    };
    let (open, close) = *dice.pick(levels);
    let at = dice.pick(found).at.clone();
    insert(text, at.end, close.repeat(depth).as_bytes());
    insert(text, at.start, open.repeat(depth).as_bytes());
}

/// A field that no reader knows, or that is there already.
fn add_field(text: &mut Vec<u8>, form: Form, dice: &mut Dice) {
    let value = hostile::word(form, dice);
    let value = String::from_utf8_lossy(&value);
    let name = if dice.once_in(2) { "unknown".to_owned() } else { name_of_one(text, dice) };
    let (after, field) = match form {
        Form::Json | Form::Call => (b'{', format!("\"{name}\":{value},")),
        Form::Yaml => (*dice.pick(b"\n{"), format!("{name}: {value}\n")),
        Form::Toml => (b'\n', format!("{name} = {value}\n")),
        Form::Csv => (*dice.pick(b"\n,"), format!("{value},")),
        Form::Http => match dice.below(3) {
            0 => (b'{', format!("\"{name}\":{value},")),
            1 => (b'?', format!("{name}={value}&")),
            _ => (b'\n', format!("{name}: {value}\r\n")),
        },
    };
    let places = text.iter().enumerate().filter(|(_, b)| **b == after).map(|(at, _)| at + 1);
    let count = places.clone().count();
    let at = places.into_iter().nth(dice.below(count)).unwrap_or(0);
    insert(text, at, field.as_bytes());
}

/// A word of the text itself.
fn name_of_one(text: &[u8], dice: &mut Dice) -> String {
    let found = tokens(text);
    let words: Vec<&Token> =
        found.iter().filter(|token| matches!(token.kind, Kind::Word | Kind::Quoted)).collect();
    if words.is_empty() {
        return "a".to_owned();
    }
    let word = String::from_utf8_lossy(&text[dice.pick(&words).at.clone()]).into_owned();
    word.trim_matches('"').to_owned()
}

fn swap(text: &mut Vec<u8>, found: &[Token], dice: &mut Dice) {
    let (one, other) = (dice.below(found.len()), dice.below(found.len()));
    let (first, second) = (&found[one.min(other)].at, &found[one.max(other)].at);
    if first == second {
        return;
    }
    let mut swapped = text[..first.start].to_vec();
    swapped.extend_from_slice(&text[second.clone()]);
    swapped.extend_from_slice(&text[first.end..second.start]);
    swapped.extend_from_slice(&text[first.clone()]);
    swapped.extend_from_slice(&text[second.end..]);
    *text = swapped;
}

/// A piece hundreds of times: seldom, because such inputs are long.
fn repeat_often(text: &mut Vec<u8>, found: &[Token], dice: &mut Dice) {
    if !dice.once_in(8) {
        return swap(text, found, dice);
    }
    let run = run(found, 12, dice);
    let piece = text[run.clone()].to_vec();
    let times = (1 + dice.below(LONGEST / 2)) / piece.len().max(1);
    insert(text, run.end, &piece.repeat(times));
}
